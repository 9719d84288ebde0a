"""Drop-in replacements for ONNX Runtime and LiteRT, for which scripts change one import.

``from matloom.compat import onnxruntime`` and ``from matloom.compat.litert import Interpreter``
replace ``import onnxruntime`` and ``from ai_edge_litert.interpreter import Interpreter``.
"""
