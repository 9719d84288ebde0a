"""BATCH_MATMUL: products of matrices that are both computed."""

from collections.abc import Sequence

import numpy as np

from matloom.arch.numerics import requantize, wrap32
from matloom.ir.attributes import Activation, BatchMatmul
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import layer_rounding, product_multiplier
from matloom.kernels.requantise import clamp_to_output


def batch_matmul(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """BATCH_MATMUL of int8, with an output in int8 or int32 (the sums), or of float32.

    Floats are summed in float64, so TensorFlow Lite Micro's results may differ in the last bits.
    """
    attributes = node.attributes_as(BatchMatmul)
    # For int8, factors have 9 bits: sums of 2**35 products are exact.
    left, right = (array.astype(np.float64) for array in inputs[:2])
    if inputs[0].dtype != np.float32:
        left -= graph.tensors[node.inputs[0]].zero_point
        right -= graph.tensors[node.inputs[1]].zero_point
    if attributes.adj_x:
        left = left.swapaxes(-1, -2)
    if attributes.adj_y:
        right = right.swapaxes(-1, -2)
    sums: Array = np.matmul(left, right)
    if inputs[0].dtype == np.float32:
        return sums.astype(np.float32)
    wrapped = wrap32(sums.astype(np.int64))
    if graph.tensors[node.output].dtype == "int32":
        return np.asarray(wrapped.astype(np.int32))
    scaled = requantize(wrapped, *product_multiplier(graph, node), layer_rounding(node))
    return clamp_to_output(scaled, Activation.NONE, graph.tensors[node.output])
