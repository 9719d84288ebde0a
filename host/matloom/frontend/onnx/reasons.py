"""Reasons why an operator stays on ONNX Runtime, for operators that no conversion was tried for."""

from typing import Any

from matloom.frontend.onnx.floats.decompose import DECOMPOSITIONS
from matloom.frontend.onnx.floats.moves import MOVES
from matloom.frontend.onnx.floats.read import CONVERTERS
from matloom.frontend.onnx.optimised import CONVERSIONS

#: Floating-point operators for which `matloom quantise` has an integer form.
_QUANTISABLE = frozenset({*CONVERTERS, *DECOMPOSITIONS})


def usual_reason(node: Any, dtype: str | None) -> str:
    """Return the reason why an operator (NodeProto) stays on ONNX Runtime.

    It is the predicate of a sentence whose subject is the operator. `dtype` is the element type of
    the operator's first output; None if unknown.
    """
    if node.op_type in CONVERSIONS:
        return "converts between floating point and integers"
    if node.op_type == "QLinearSoftmax":
        return "rounds differently from the engine's SOFTMAX, which matloom quantise uses instead"
    # Operators that move data also move integers, such as shapes.
    floating = dtype == "float32" or (dtype is None and node.op_type not in MOVES)
    if floating and node.op_type in _QUANTISABLE and node.domain in ("", "ai.onnx"):
        return "computes in floating point; matloom quantise makes it an integer operator"
    return "has no kernel here"
