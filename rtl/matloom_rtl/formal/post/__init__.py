"""Proofs about post-processing."""
