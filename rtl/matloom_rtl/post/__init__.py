"""Post-processing: requantisation of sums and bytes by lanes that run behind the array."""
