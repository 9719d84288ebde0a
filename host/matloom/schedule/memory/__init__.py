"""Plans memory on chip and outside: which buffers exist, when, and at which address."""
