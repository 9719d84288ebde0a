"""Floating-point arithmetic in registered stages: one result a cycle, nothing ever holds."""
