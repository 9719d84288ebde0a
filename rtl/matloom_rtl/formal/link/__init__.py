"""Proofs about the memory port shared by engine and link."""
