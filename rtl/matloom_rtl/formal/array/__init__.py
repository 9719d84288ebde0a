"""Proofs about EXEC: its walk, requests, outputs and weights."""
