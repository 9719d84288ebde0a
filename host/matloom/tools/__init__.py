"""What the command line offers and is no device or compiler: benchmarks, comparisons, reports."""
