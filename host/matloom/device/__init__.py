"""Devices that run programs: the functional model, the simulated chip, boards, and their driver."""
