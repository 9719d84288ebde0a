"""Curves of LOGISTIC and TANH for int16, and the multipliers that scale their arguments."""

import math

from matloom.arch.curves import ARGUMENT_SCALE, Curve
from matloom.ir.graph import Graph, Node, Op
from matloom.ir.scales import Multiplier, sigmoid_scale

#: POST's curve for each operator that has one for int16.
CURVES = {Op.LOGISTIC: Curve.LOGISTIC, Op.TANH: Curve.TANH}

#: Maximum distance from an integer of the logarithm of a scale that counts as a power of two, and
#: the largest right shift minus one, as in TensorFlow Lite Micro's LOGISTIC and TANH for int16.
_POWER_TOLERANCE, _MOST_CURVE_SHIFT = 1e-3, 30


def sigmoid_ratio(graph: Graph, node: Node) -> Multiplier:
    """Return the multiplier and shift for inputs of LOGISTIC and TANH of int8 or int16.

    Raises
    ------
    ValueError
        The input's scale or zero point is not supported.
    """
    words = graph.tensors[node.inputs[0]].dtype == "int16"
    return curve_scale(graph, node) if words else sigmoid_scale(graph, node)


def curve_scale(graph: Graph, node: Node) -> Multiplier:
    """Return the multiplier and right shift that convert int16 inputs of LOGISTIC and TANH.

    Products are rounded once, halves up; the results are arguments times `curves.ARGUMENT_SCALE`.
    As in TensorFlow Lite Micro, a scale near 2**-12, and for TANH near 2**-11, is taken for this
    power of two; others have a multiplier of 15 bits.

    Raises
    ------
    ValueError
        The input has a zero point other than 0, or a scale that is too large or, because reference
        kernels take a multiplier of 0 for one of a power of two, too small.
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
    if ratio < 1:
        least = 2.0 ** -(_MOST_CURVE_SHIFT + 1) / ARGUMENT_SCALE
        raise ValueError(f"the input's scale must be at least {least:.3g}, not {data.scale:.3g}")
    return int(ratio), right
