"""Converts torch.export programs to ONNX without importing torch, by reading their attributes."""
