"""Operators that reduce axes: MEAN, SUM, ARG_MAX, ARG_MIN."""

import math
from collections.abc import Sequence

import numpy as np

from matloom.arch.numerics import wrap32
from matloom.ir.attributes import Activation, Axis, Reduce
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.ir.scales import reduction_multiplier
from matloom.kernels.requantise import clamp_to_output, scale


def reduction(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """MEAN and SUM of 8-bit integers."""
    attributes = node.attributes_as(Reduce)
    data, output = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    centred = inputs[0].astype(np.int64) - data.zero_point
    sums = wrap32(centred.sum(axis=attributes.axes, keepdims=attributes.keep_dims))
    scaled = scale(np.asarray(sums), *reduction_multiplier(graph, node))
    return clamp_to_output(scaled, Activation.NONE, output)


def float_reduction(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """MEAN and SUM of float32; the order of additions is not defined."""
    attributes = node.attributes_as(Reduce)
    sums = inputs[0].sum(axis=attributes.axes, keepdims=attributes.keep_dims, dtype=np.float32)
    if node.op is Op.MEAN:
        sums = sums / np.float32(math.prod(inputs[0].shape[axis] for axis in attributes.axes))
    return np.asarray(sums, np.float32)


def arg_extreme(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """ARG_MAX and ARG_MIN: the index, int32, of the first extreme value along an axis."""
    function = np.argmax if node.op is Op.ARG_MAX else np.argmin
    axis = node.attributes_as(Axis).axis
    return np.asarray(function(inputs[0], axis=axis)).astype(np.int32)
