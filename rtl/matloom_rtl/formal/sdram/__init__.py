"""Proofs about the SDRAM controller and the memory port in front of it."""
