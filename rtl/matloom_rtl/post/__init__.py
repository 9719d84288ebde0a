"""Post-processing: requantises sums and bytes in lanes, in parallel to the array."""
