"""How tensors lie in the scratchpad: one file for each layout."""
