"""What the command line offers besides compiling and running: benchmarks, comparisons, reports."""
