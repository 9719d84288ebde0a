"""Choices of a search: where it starts, what it tries, and tighter ones until a plan fits."""
