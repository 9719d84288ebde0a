"""LOGISTIC and TANH of int16: their curves, and the multipliers of their arguments."""

import math

from matloom.arch.curves import ARGUMENT_SCALE, Curve
from matloom.ir.graph import Graph, Node, Op
from matloom.ir.scales import Multiplier, sigmoid_scale

#: Operators that are a curve of words.
CURVES = {Op.LOGISTIC: Curve.LOGISTIC, Op.TANH: Curve.TANH}

#: How far the logarithm of a scale may be from an integer for a power of two, and the largest right
#: shift but one of a scaled input, in TensorFlow Lite Micro's LOGISTIC and TANH of int16.
_POWER_TOLERANCE, _MOST_CURVE_SHIFT = 1e-3, 30


def sigmoid_ratio(graph: Graph, node: Node) -> Multiplier:
    """Return the multiplier for inputs of LOGISTIC and TANH, int8 or int16; raise without one."""
    words = graph.tensors[node.inputs[0]].dtype == "int16"
    return curve_scale(graph, node) if words else sigmoid_scale(graph, node)


def curve_scale(graph: Graph, node: Node) -> Multiplier:
    """Return the multiplier and right shift that scale int16 inputs of LOGISTIC and TANH.

    Products are rounded once, halves up, and are then arguments over `curves.ARGUMENT_SCALE`.
    TensorFlow Lite Micro takes scales near one power of two, or two, for that power, and has a
    multiplier of 15 bits for others.
    """
    data = graph.tensors[node.inputs[0]]
    if data.zero_point:
        raise ValueError(f"the input's zero point must be 0, not {data.zero_point}")
    power = math.log2(data.scale)
    left = 12 + round(power)
    if abs(power - round(power)) < _POWER_TOLERANCE and left in range(1 + (node.op is Op.TANH)):
        return 3 << left, 0
    ratio, right = data.scale * ARGUMENT_SCALE, 0
    while ratio <= (2**15 - 1) / 2 and right <= _MOST_CURVE_SHIFT:
        ratio, right = 2 * ratio, right + 1
    if ratio >= 2**15:
        raise ValueError(f"the input's scale must be below {2**15 / ARGUMENT_SCALE:.3f}")
    return int(ratio), right
