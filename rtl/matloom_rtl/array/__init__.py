"""Systolic array: computes 32-bit sums from scratchpad bytes and updates the accumulators."""
