"""Definitions of floating-point layers, and of operators between them, on probes.

Probes are numbers that stand for unknown bytes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom.arch.floats import FLOAT_FORMATS, FP32, narrow
from matloom.arch.modes import FP32_FORMAT, MAC_MODES
from matloom.arch.numerics import wrap32
from matloom.ir.attributes import Activation, Arithmetic, MatrixProduct
from matloom.ir.graph import Op
from matloom.meaning.context import NodeInputs, Unproven
from matloom.meaning.floats import (
    NEGATIVE_ZERO,
    element_bytes,
    element_probes,
    limit_sums,
    weight_probes,
)
from matloom.meaning.terms import Integers, exact_product

#: Range of each activation.
_LIMITS = {
    Activation.NONE: (-np.inf, np.inf),
    Activation.RELU: (0.0, np.inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def _patterns(values: Any, form: str) -> Integers:
    """Return the bit patterns of float32 numbers rounded to the format named `form`."""
    raw = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.int64)
    return np.asarray(narrow(raw, FLOAT_FORMATS[form]))


def float_weights(weights: NDArray[Any], mode: str) -> NDArray[np.float64]:
    """Return a number for each float32 weight, rounded to the format of a mode."""
    return weight_probes(_patterns(weights, mode)).astype(np.float64)


def _limit(
    sums: Integers, bias: Any, activation: Activation = Activation.NONE, limits: Any = None
) -> Integers:
    """Return probes (numbers for unknown values) of sums plus a bias, limited by an activation."""
    ends = _LIMITS[activation] if limits is None else limits
    low, high = (int(_patterns([value], "fp8_e5m2")[0]) for value in ends)
    return limit_sums(wrap32(sums), bias, low, high)


def _bias(context: NodeInputs) -> Any:
    """Return the fp32 bit patterns of a layer's bias, its third input."""
    data = context.inputs[2].data
    if data is None:
        raise Unproven("a bias that is computed")
    return data.reshape(-1).astype(np.float32).view(np.int32).astype(np.int64)


def float_result(context: NodeInputs, sums: Integers, activation: Activation) -> list[Integers]:
    """Return the output bytes of a layer from sums (..., channels): add a bias, then clamp."""
    bias: Any = _bias(context) if len(context.inputs) > 2 else 0
    return context.to_bytes(_limit(sums, bias, activation))


def _elements(context: NodeInputs, index: int) -> Integers:
    """Return probes (numbers for unknown values) of an input's floats, in the input's shape."""
    tensor, raw = context.inputs[index], context.raw[index]
    size = tensor.element_bytes
    return element_probes([raw[place::size] for place in range(size)]).reshape(tensor.shape)


def matrix_product(context: NodeInputs) -> list[Integers]:
    """Compute MATRIX_PRODUCT: products of elements and weights, plus residual and bias."""
    attributes, weights = context.node.attributes_as(MatrixProduct), context.inputs[1].data
    if weights is None:
        raise Unproven("weights that are computed")
    right = weight_probes(weights.reshape(len(weights), -1).astype(np.int64))
    left = _elements(context, 0).reshape(-1, right.shape[1])
    sums = exact_product(left.astype(np.float64), right.T.astype(np.float64))
    if len(context.inputs) > 3:
        sums = sums + _elements(context, 3)
    limits = (attributes.low, attributes.high)
    results = _limit(sums, _bias(context), limits=limits)
    name, size = context.output.number_format, context.output.element_bytes
    form = FP32_FORMAT if name == FP32.name else MAC_MODES.index(str(name))
    return [np.stack(element_bytes(results, form, size), axis=-1)]


def float_add(context: NodeInputs) -> list[Integers]:
    """Compute ADD of floating-point tensors."""
    first, second = (np.broadcast_to(context.values(at), context.output.shape) for at in (0, 1))
    activation = context.node.attributes_as(Arithmetic).activation
    return context.to_bytes(_limit(first + second, NEGATIVE_ZERO, activation))


def float_limit(context: NodeInputs) -> list[Integers]:
    """Compute RELU, RELU6 and QUANTIZE of floating-point tensors."""
    activation = Activation.NONE
    if context.node.op is not Op.QUANTIZE:
        activation = Activation(context.node.op)
    return context.to_bytes(_limit(context.values(0), NEGATIVE_ZERO, activation))
