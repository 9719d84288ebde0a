"""System on chip: a processor next to the engine, sharing its memory."""
