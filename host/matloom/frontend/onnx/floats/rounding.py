"""Removes the rounding of activations from a QDQ network, which is then a float network."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from matloom.frontend.onnx.file_node import FileNode
from matloom.ir.graph import Array

#: Operators whose results are never negative, whatever their inputs.
_NEVER_NEGATIVE = frozenset(
    {"Abs", "Exp", "HardSigmoid", "ReduceL1", "ReduceL2", "Relu", "Sigmoid", "Softmax", "Softplus"}
)
#: Operators whose results are not negative if none of their inputs is negative, and operators whose
#: results are not negative if their first input is not negative.
_OF_ALL_INPUTS = frozenset({"Add", "Concat", "Max", "Min", "Mul"})
_OF_THE_FIRST = frozenset(
    {
        *("AveragePool", "DepthToSpace", "Dropout", "Flatten", "Gather", "GlobalAveragePool"),
        *("GlobalMaxPool", "Identity", "MaxPool", "ReduceMax", "ReduceMean", "ReduceSum"),
        *("Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze"),
    }
)


def without_rounding(
    nodes: Sequence[FileNode], constants: Mapping[str, Array]
) -> Iterator[FileNode]:
    """Yield the operators of a file, with an Identity or a Relu instead of each DequantizeLinear.

    Only a DequantizeLinear that reads the result of a QuantizeLinear is replaced; the new operator
    reads the QuantizeLinear's input. It is a Relu if the zero point is the smallest integer and the
    input may be negative, because tools for quantisation drop a Relu before such a QuantizeLinear.
    The QuantizeLinear stays for operators that read integers.

    Parameters
    ----------
    nodes:
        Operators that read at least one computed value, in order of execution.
    constants:
        All constants, by name.
    """
    rounded = {node.output: node for node in nodes if node.op == "QuantizeLinear"}
    positive: set[str] = set()
    for node in nodes:
        made, source = node, rounded.get(node.source) if node.op == "DequantizeLinear" else None
        if source is not None:
            limits = _drops_negatives(source, constants) and source.source not in positive
            op = "Relu" if limits else "Identity"
            made = replace(node, op=op, inputs=(source.source,), options={})
        if _is_positive(made, positive, constants):
            positive.update(made.outputs)
        yield made


def _drops_negatives(node: FileNode, constants: Mapping[str, Array]) -> bool:
    """Return whether a QuantizeLinear turns all negative numbers into zero."""
    zero_point = constants.get(node.input(2), np.zeros((), np.uint8))
    if zero_point.dtype.kind not in "iu":
        return False
    return bool((zero_point == np.iinfo(zero_point.dtype).min).all())


def _is_positive(node: FileNode, positive: set[str], constants: Mapping[str, Array]) -> bool:
    """Return whether an operator's results are known not to be negative.

    `positive` are the names of values known not to be negative.
    """
    if node.op in _NEVER_NEGATIVE:
        return True
    if node.op in _OF_THE_FIRST:
        return node.source in positive
    if node.op not in _OF_ALL_INPUTS:
        return False
    known = positive | {
        name for name in node.inputs if name in constants and (constants[name] >= 0).all()
    }
    return known >= {*node.inputs}
