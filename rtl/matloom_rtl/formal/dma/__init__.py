"""Proofs about LOAD, STORE and the managers of the memory bus."""
