"""ONNX files: read, and given sizes for their dimensions."""
