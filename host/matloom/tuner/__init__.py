"""Searches the choices of a network's schedule, and measures the best on the simulated chip."""
