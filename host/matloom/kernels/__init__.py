"""Operators on the host: exact NumPy kernels, and an interpreter that runs graphs with them."""
