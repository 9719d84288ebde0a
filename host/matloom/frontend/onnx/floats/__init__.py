"""Reads ONNX networks of floats as operators of the graph, with channels last."""
