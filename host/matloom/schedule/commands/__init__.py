"""Emits the instructions of a plan, with the waits between them."""
