"""Searches for faster schedules of a network, and measures the best on the simulated chip."""
