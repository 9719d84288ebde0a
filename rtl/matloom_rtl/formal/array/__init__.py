"""Proofs about EXEC: its walk, its requests and its weights."""
