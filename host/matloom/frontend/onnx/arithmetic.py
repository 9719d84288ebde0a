"""Counts the multiply-accumulates of operators that ONNX Runtime runs."""

import math
from collections.abc import Sequence
from typing import Any

from matloom.kernels.onnx_model import parse

#: Convolutions, and the index of the input that holds their weights.
_CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}
#: Matrix products, and the indices of the inputs that hold the left and the right matrix.
_MATRICES = {"Gemm": (0, 1), "MatMul": (0, 1), "MatMulInteger": (0, 1)}
_MATRICES |= {"QLinearMatMul": (0, 3), "QGemm": (0, 3)}

Shape = tuple[int, ...]


def onnx_macs(content: bytes, names: Sequence[str], positions: Sequence[int]) -> list[int]:
    """Return the number of multiply-accumulates of operators of a model; 0 if unknown.

    `names` are the operators' names, and `positions` their indices in the graph. If `positions` is
    empty, `names` must list all operators of the graph.
    """
    graph = parse(content).graph
    shapes = _shapes(graph)
    places = positions or range(len(graph.node))
    return [_macs(graph.node[at], shapes) for _name, at in zip(names, places, strict=True)]


def _shapes(graph: Any) -> dict[str, Shape]:
    """Return the shapes of a GraphProto's values, by name; open dimensions have size 0."""
    found = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    found.update({each.name: tuple(each.dims) for each in graph.initializer})
    return found


def _macs(node: Any, shapes: dict[str, Shape]) -> int:
    """Return the number of multiply-accumulates of an ONNX node."""
    input_shapes = [shapes.get(name, ()) for name in node.input]
    outputs = math.prod(shapes.get(node.output[0], (0,))) if node.output else 0
    at = _CONVOLUTIONS.get(node.op_type)
    if at is not None and at < len(input_shapes):
        return outputs * math.prod(input_shapes[at][1:])
    if node.op_type == "ConvTranspose" and len(input_shapes) > 1 and input_shapes[0]:
        return math.prod(input_shapes[0]) * math.prod(input_shapes[1][1:])
    pair = _MATRICES.get(node.op_type)
    if pair is None or pair[1] >= len(input_shapes) or len(input_shapes[pair[0]]) < 1:
        return 0
    transposed = any(item.name == "transA" and item.i for item in node.attribute)
    left = input_shapes[pair[0]]
    return outputs * left[0 if transposed else -1]
