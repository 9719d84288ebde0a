"""What the command line offers beside compiling and running: benchmarks, comparisons, reports."""
