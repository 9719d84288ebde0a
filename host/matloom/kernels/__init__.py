"""Host operators: exact NumPy kernels, and an interpreter that runs graphs with them."""
