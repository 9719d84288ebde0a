"""Code that tests and benchmarks share: random networks, damaged files, mutants, devices."""
