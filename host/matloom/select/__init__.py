"""From operators to stages, the terms of the engine: instruction selection."""
