"""Whole boards from their pins on: clock, reset, memory, link, engine, and how they are built."""
