"""What tests and benchmarks share: random networks, damaged files, mutants, lines and devices."""
