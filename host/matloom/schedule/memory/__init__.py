"""Space on chip and in external memory: which buffers exist, when, and where."""
