"""Whole boards: clock, reset, memory, link and engine behind their pins, and how they are built."""
