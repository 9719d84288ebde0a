"""Post-processing: requantisation of sums and bytes by lanes that work while the array does."""
