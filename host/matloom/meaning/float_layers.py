"""Floating-point layers over probes, and the operators between them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom.arch.floats import FLOAT_FORMATS, narrow
from matloom.arch.numerics import wrap32
from matloom.ir.attributes import Activation, Arithmetic
from matloom.ir.graph import Op
from matloom.meaning.context import Context, Unproven
from matloom.meaning.floats import NOTHING, limited, weight_probes
from matloom.meaning.terms import Integers

__all__ = ["float_add", "float_limit", "float_result", "float_weights"]

#: The minimum and the maximum that each activation lets through.
_LIMITS = {
    Activation.NONE: (-np.inf, np.inf),
    Activation.RELU: (0.0, np.inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def _patterns(values: Any, form: str) -> Integers:
    """Return the patterns of float32 numbers in a format."""
    raw = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.int64)
    return np.asarray(narrow(raw, FLOAT_FORMATS[form]))


def float_weights(weights: NDArray[Any], mode: str) -> NDArray[np.float64]:
    """Return the probes of float32 weights rounded to a mode."""
    return weight_probes(_patterns(weights, mode)).astype(np.float64)


def _limited(sums: Integers, bias: Any, activation: Activation) -> Integers:
    low, high = (int(_patterns([value], "fp8_e5m2")[0]) for value in _LIMITS[activation])
    return limited(wrap32(sums), bias, low, high)


def float_result(context: Context, sums: Integers, activation: Activation) -> list[Integers]:
    """Return the output of a layer's sums (..., channels), its bias added."""
    bias: Any = 0
    if len(context.inputs) > 2:
        data = context.inputs[2].data
        if data is None:
            raise Unproven("a bias that is computed")
        bias = data.reshape(-1).astype(np.float32).view(np.int32).astype(np.int64)
    return context.written(_limited(sums, bias, activation))


def float_add(context: Context) -> list[Integers]:
    """ADD of float32."""
    first, second = (np.broadcast_to(context.values(at), context.output.shape) for at in (0, 1))
    activation = context.node.attributes_as(Arithmetic).activation
    return context.written(_limited(first + second, NOTHING, activation))


def float_limit(context: Context) -> list[Integers]:
    """RELU, RELU6 and QUANTIZE of float32."""
    activation = Activation.NONE
    if context.node.op is not Op.QUANTIZE:
        activation = Activation(context.node.op)
    return context.written(_limited(context.values(0), NOTHING, activation))
