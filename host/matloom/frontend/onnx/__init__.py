"""Reads ONNX files, and sets the sizes of their dimensions."""
