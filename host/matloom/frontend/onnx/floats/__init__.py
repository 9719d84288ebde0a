"""Converts ONNX networks of floats to graphs with channels last."""
