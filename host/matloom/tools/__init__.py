"""Tools of the command line: benchmarks, comparisons, reports."""
