"""Everything that moves bytes between external memory and the core."""
