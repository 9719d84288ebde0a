"""The calls of ONNX Runtime and LiteRT, on Matloom: existing scripts change one import.

``from matloom.compat import onnxruntime`` and ``from matloom.compat.litert import Interpreter``
stand for ``import onnxruntime`` and ``from ai_edge_litert.interpreter import Interpreter``.
"""
