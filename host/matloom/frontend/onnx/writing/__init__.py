"""Writes ONNX files, in which QuantizeLinear and DequantizeLinear surround quantised tensors."""
