"""Reads, writes and reshapes TensorFlow Lite files."""
