"""Proofs about the SDRAM controller and the port before it."""
