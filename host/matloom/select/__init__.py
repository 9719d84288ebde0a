"""Instruction selection: turns operators into stages, which the engine can run."""
