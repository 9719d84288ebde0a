"""Mutants of the hardware's source, and the tests that should notice each."""
