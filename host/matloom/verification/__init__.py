"""Compares the chip with the model on random and steered programs: `matloom verify`."""
