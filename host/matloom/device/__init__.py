"""Devices that run programs: the functional model, the simulated chip, and the driver above."""
