"""The array: turns scratchpad bytes into 32-bit sums in the accumulators."""
