"""BATCH_MATMUL: products of matrices that are both computed."""

from collections.abc import Sequence

import numpy as np

from matloom.arch.numerics import wrap32
from matloom.ir.attributes import Activation, BatchMatmul
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.products import matmul_multiplier
from matloom.kernels.requantise import finish, scale

__all__ = ["batch_matmul"]


def batch_matmul(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """BATCH_MATMUL of int8; sums have 32 bits."""
    attributes = node.attributes_as(BatchMatmul)
    left, right = (
        # Products of 9-bit numbers: sums of 2**35 of them are exact.
        (array.astype(np.float64) - graph.tensors[number].zero_point)
        for array, number in zip(inputs, node.inputs, strict=True)
    )
    if attributes.adj_x:
        left = left.swapaxes(-1, -2)
    if attributes.adj_y:
        right = right.swapaxes(-1, -2)
    sums = np.matmul(left, right).astype(np.int64)
    scaled = scale(wrap32(sums), *matmul_multiplier(graph, node))
    return finish(scaled, Activation.NONE, graph.tensors[node.output])
