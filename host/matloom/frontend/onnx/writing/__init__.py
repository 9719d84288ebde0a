"""Writes graphs as ONNX files, quantised tensors between QuantizeLinear and DequantizeLinear."""
