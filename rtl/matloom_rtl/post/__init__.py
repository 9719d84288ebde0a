"""Post-processing: requantises sums and bytes in lanes that work while the array does."""
