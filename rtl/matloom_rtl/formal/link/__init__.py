"""Proofs about the memory port that engine and link share."""
