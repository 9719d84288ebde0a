"""Computes an operator on known values with ONNX's reference evaluator."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from matloom.ir.graph import Array

#: First operator set of which onnx's reference evaluator has these operators.
_EVALUATED_SINCE = dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), 19)


def evaluate(proto: Any, inputs: Mapping[str, Array], opset: int) -> dict[str, Array]:
    """Return the outputs of a NodeProto by name, for inputs by name.

    `opset` is the version of ONNX's operator set.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    declared = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(inputs[name].dtype), None
        )
        for name in dict.fromkeys(proto.input)
        if name
    ]
    outputs = [name for name in proto.output if name]
    infos = [onnx.ValueInfoProto(name=name) for name in outputs]
    version = max(opset, _EVALUATED_SINCE.get(proto.op_type, 0))
    model = onnx.helper.make_model(
        onnx.helper.make_graph([proto], "constants", declared, infos),
        opset_imports=[onnx.helper.make_opsetid("", version)],
    )
    # Masks of the least float may be added to each other.
    with np.errstate(over="ignore"):
        results = ReferenceEvaluator(model).run(None, dict(inputs))
    return {name: np.asarray(each) for name, each in zip(outputs, results, strict=True)}
