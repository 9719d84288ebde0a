"""Compares the chip with the model on random and directed programs: `matloom verify`."""
