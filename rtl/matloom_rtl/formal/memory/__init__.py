"""Proofs about queues and the scratchpad."""
