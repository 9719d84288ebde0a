"""Finds the values of a tensor that matter to the operator that reads it.

Ranges are chosen for these values, and errors are measured on them, because a scale need not
represent values that affect no result.
"""

from collections.abc import Mapping

import numpy as np

from matloom.ir.attributes import Activation, Arithmetic
from matloom.ir.graph import Array, Graph, Node, Op

#: Distance below the largest number of a row from which results are the smallest: a probability
#: that 16 bits round to zero, or the smallest logarithm that int8 represents.
_FAR_BELOW = {Op.SOFTMAX: 16 * np.log(2), Op.LOG_SOFTMAX: 16.0}
#: A row whose largest number is this much below that of all rows is masked as a whole, because its
#: query is padding, and its results do not matter.
_EXCLUDED_BELOW = np.float32(512)
#: Magnitude of inputs beyond which functions are constant to within a 16-bit step.
_CONSTANT_BEYOND = {Op.LOGISTIC: 16 * np.log(2), Op.TANH: 8.5 * np.log(2)}
_LIMITS = {Activation.RELU: (0.0, np.inf), Activation.RELU6: (0.0, 6.0)}


def clamp_to_relevant(graph: Graph, number: int, arrays: Mapping[int, Array]) -> Array:
    """Return a tensor's values, with irrelevant ones replaced by the nearest relevant value.

    If an addition with RELU reads the tensor, values below the negative of the other operand are
    irrelevant; if SOFTMAX or LOG_SOFTMAX does, those far below the largest of their row; if
    LOGISTIC or TANH does, those of large magnitude. With several readers, all values are relevant.

    Parameters
    ----------
    arrays:
        Values (samples, *shape) of tensors, by number: the tensor itself, and those computed before
        it.
    """
    values = arrays[number]
    readers = graph.consumers[number]
    if len(readers) != 1 or number in graph.leaving:
        return values
    node = graph.nodes[readers[0]]
    if node.op in _FAR_BELOW:
        largest = values.max(axis=-1, keepdims=True)
        limits = largest - np.float32(_FAR_BELOW[node.op])
        kept = largest >= largest.max() - _EXCLUDED_BELOW
        return np.asarray(np.maximum(values, np.maximum(limits, limits[kept].min())))
    if node.op in _CONSTANT_BEYOND:
        limit = _CONSTANT_BEYOND[node.op]
        return np.asarray(np.clip(values, -limit, limit), np.float32)
    return _relevant_operand(node, number, arrays) if node.op is Op.ADD else values


def _relevant_operand(node: Node, number: int, arrays: Mapping[int, Array]) -> Array:
    """Return an operand of an addition, clipped by the activation if the other operand is known."""
    values = arrays[number]
    other = [each for each in node.inputs if each != number]
    limits = _LIMITS.get(node.attributes_as(Arithmetic).activation)
    if limits is None or len(other) != 1 or other[0] not in arrays:
        return values
    operand = arrays[other[0]]
    if operand.shape != values.shape:
        return values
    return np.asarray(np.clip(values, limits[0] - operand, limits[1] - operand))
