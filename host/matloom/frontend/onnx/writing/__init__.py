"""Writes graphs as ONNX files, quantised ones between QuantizeLinear and DequantizeLinear."""
