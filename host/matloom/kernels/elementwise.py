"""Element-wise operators of two inputs, with broadcasting."""

from collections.abc import Sequence

import numpy as np

from matloom.arch.numerics import requantize, wrap32
from matloom.ir.attributes import Activation, Arithmetic
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.ir.scales import (
    addition_scales,
    layer_rounding,
    prelu_scales,
    product_multiplier,
    square_scales,
)
from matloom.kernels.requantise import clamp_to_output, convert, limit, scale


def _subtract_zero_points(graph: Graph, node: Node, inputs: Sequence[Array]) -> list[Array]:
    """Return each input less its zero point, as int64."""
    return [
        x.astype(np.int64) - graph.tensors[number].zero_point
        for x, number in zip(inputs, node.inputs, strict=False)
    ]


def add(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """ADD and SUB of 8-bit or 16-bit integers."""
    scales = addition_scales(graph, node)
    first, second = (
        scale(x << scales.left_shift, *pair)
        for x, pair in zip(_subtract_zero_points(graph, node, inputs), scales.inputs, strict=True)
    )
    total = first + second if node.op is Op.ADD else first - second
    scaled = scale(wrap32(total), *scales.output)
    return clamp_to_output(
        scaled, node.attributes_as(Arithmetic).activation, graph.tensors[node.output]
    )


def multiply(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """MUL of 8-bit or 16-bit integers."""
    first, second = _subtract_zero_points(graph, node, inputs[:2])
    products, pair = wrap32(first * second), product_multiplier(graph, node)
    scaled = requantize(products, *pair, layer_rounding(node))
    return clamp_to_output(
        scaled, node.attributes_as(Arithmetic).activation, graph.tensors[node.output]
    )


def squared_difference(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """SQUARED_DIFFERENCE of 8-bit integers."""
    scales = square_scales(graph, node)
    first, second = (
        scale(x << scales.left_shift, *pair)
        for x, pair in zip(_subtract_zero_points(graph, node, inputs), scales.inputs, strict=True)
    )
    scaled = scale((first - second) ** 2, *scales.output)
    return clamp_to_output(scaled, Activation.NONE, graph.tensors[node.output])


def float_squared_difference(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """SQUARED_DIFFERENCE of float32."""
    result: Array = np.square(inputs[0] - inputs[1])
    return result


def float_arithmetic(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """ADD, SUB and MUL of float32; the result may be rounded to fp16 or bf16."""
    function = {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply}[node.op]
    limited = limit(function(*inputs), node.attributes_as(Arithmetic).activation)
    return convert(limited, graph.tensors[node.output].dtype)


def maximum(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """MAXIMUM; integers are compared without regard to scales and zero points."""
    result: Array = np.where(inputs[0] > inputs[1], inputs[0], inputs[1])
    return result


def minimum(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """MINIMUM; integers are compared without regard to scales and zero points."""
    result: Array = np.where(inputs[0] < inputs[1], inputs[0], inputs[1])
    return result


def prelu(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """PRELU of 8-bit integers: negative values are multiplied by the second input."""
    data, alpha = _subtract_zero_points(graph, node, inputs)
    above, below = prelu_scales(graph, node)
    scaled = np.where(data >= 0, scale(data, *above), scale(data * alpha, *below))
    return clamp_to_output(scaled, Activation.NONE, graph.tensors[node.output])


def float_prelu(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """PRELU of float32: negative values are multiplied by the second input."""
    return np.where(inputs[0] >= 0, inputs[0], inputs[0] * inputs[1])
