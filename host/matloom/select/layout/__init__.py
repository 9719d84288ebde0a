"""Layouts of tensors in the scratchpad, one file each."""
