"""Choices of a search: starting points, candidates, and tighter bounds until a plan fits."""
