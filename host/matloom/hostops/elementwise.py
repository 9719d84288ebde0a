"""Elementwise operators of two inputs: ADD."""

from collections.abc import Sequence

import numpy as np

from matloom.arch.numerics import wrap32
from matloom.hostops.requantise import finish, scale
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import addition

__all__ = ["add"]


def add(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """ADD: int8 and int8, broadcast, to int8."""
    scales = addition(graph, node)
    scaled = [
        scale((x.astype(np.int64) - graph.tensors[number].zero_point) << scales.left_shift, *pair)
        for x, number, pair in zip(inputs, node.inputs, scales.inputs, strict=True)
    ]
    total = scale(wrap32(scaled[0] + scaled[1]), *scales.output)
    return finish(total, node.attributes_as(Arithmetic).activation, graph.tensors[node.output])
