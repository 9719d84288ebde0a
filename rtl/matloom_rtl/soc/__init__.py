"""A system on chip: a processor next to the engine, on the same memory."""
