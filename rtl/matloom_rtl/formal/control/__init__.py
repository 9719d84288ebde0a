"""Proofs about registers, the dispatcher, waits between units, and the run state."""
