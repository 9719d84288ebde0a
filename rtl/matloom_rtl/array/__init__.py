"""From scratchpad bytes to 32-bit sums: addresses, weights, multipliers, accumulators."""
