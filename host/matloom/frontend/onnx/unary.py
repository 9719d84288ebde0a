"""Converts functions of one byte to graph operators that match ONNX Runtime on every byte.

ONNX Runtime evaluates the operators on all 256 bytes. The first operator of the graph whose kernel
gives the same 256 bytes is used; if there is none, LOOKUP holds them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.functions import bytes_as_int8, every_byte, run_alone
from matloom.frontend.onnx.quantised import Model, attribute, quantisation_of
from matloom.frontend.onnx.steps import fit_multipliers
from matloom.frontend.onnx.values import Values, as_int8
from matloom.ir.attributes import (
    Attributes,
    DepthwiseConv2D,
    LeakyRelu,
    Lookup,
)
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.kernels.kernels import kernel_of


def table_of(
    model: Model, nodes: Sequence[Any], names: tuple[str, str], dtypes: tuple[str, str]
) -> Array:
    """Return ONNX Runtime's results for all input bytes in ascending order, as int8 (256,).

    `names` are the names of the value that the operators read and of the result; `dtypes` are the
    types of both.

    Raises
    ------
    Unsupported
        A result depends on the position of the byte, because vector and scalar kernels differ.
    """
    every = every_byte(dtypes[0])
    results = run_alone(model.proto, nodes, {names[0]: every}, names[1], dtypes[1])
    # Enough copies that each byte is once among the last few of a vector.
    shifted = np.concatenate([np.roll(every, -at)[: 256 - at % 3] for at in range(0, 256, 2)])
    again = run_alone(model.proto, nodes, {names[0]: shifted}, names[1], dtypes[1])
    if results.shape != every.shape or not np.array_equal(
        again, results[shifted.astype(np.int64) - int(every[0])]
    ):
        raise Unsupported("has results that depend on more than a byte")
    return bytes_as_int8(results)


def convert_unary(values: Values, model: Model, node: Any) -> Claim:
    """Convert QLinearLeakyRelu, QLinearSigmoid or QLinearMul by a number; return its exactness.

    All results equal ONNX Runtime's.

    Raises
    ------
    Unsupported
        A result depends on more than a byte.
    """
    names, at = list(node.input), 0
    wanted: list[tuple[Op, Attributes]] = []
    if node.op_type == "QLinearMul":
        at = 0 if names[3] in model.constants else 3
    elif node.op_type == "QLinearLeakyRelu":
        wanted.append((Op.LEAKY_RELU, LeakyRelu(alpha=attribute(node, "alpha", 0.01))))
    else:
        wanted.append((Op.LOGISTIC, Attributes()))
    made = names[6:] if node.op_type == "QLinearMul" else names[3:]
    input_quantisation = quantisation_of(model, *names[at + 1 : at + 3])
    result = quantisation_of(model, made[0], "".join(made[1:]))
    return convert_chain(
        values, model, [node], (names[at], input_quantisation), (node.output[0], result), wanted
    )


def convert_chain(
    values: Values,
    model: Model,
    nodes: Sequence[Any],
    source: tuple[str, Quantisation],
    output: tuple[str, Quantisation],
    candidates: Sequence[tuple[Op, Attributes]] = (),
) -> Claim:
    """Convert operators that map each byte to a byte to a single one; return its exactness.

    `source` and `output` are the names and quantisations of the values that are read and made;
    `candidates` are operators to try before LOOKUP. All results equal ONNX Runtime's.

    Raises
    ------
    Unsupported
        A result depends on more than a byte.
    """
    dtypes = values.known[source[0]].dtype, values.known[output[0]].dtype
    table = table_of(model, nodes, (source[0], output[0]), dtypes)
    order = values.order_of(source[0])
    number = values.bytes_of(source[0], order, source[1])
    ends = as_int8(source[1], dtypes[0]), as_int8(output[1], dtypes[1])
    values.hold(output[0], order, add_function(values, number, ends, table, output[0], candidates))
    return Claim(unit="bytes", reachable=256, differing=0)


def add_function(
    values: Values,
    number: int,
    quantisations: tuple[Quantisation, Quantisation],
    table: Array,
    name: str,
    candidates: Sequence[tuple[Op, Attributes]] = (),
) -> int:
    """Add operators that map int8 bytes as a table does; return the tensor number of the result.

    The first of these that computes the table is added: none at all, one of `candidates`, QUANTIZE,
    a convolution with one multiplier, LOOKUP.

    Parameters
    ----------
    number:
        Number of the tensor to map.
    quantisations:
        Quantisations of the input and the output, as int8.
    table:
        int8 (256,): results for all bytes in ascending order.
    """
    shape = values.tensors[number].shape
    if np.array_equal(table, every_byte("int8")):
        return values.read_as(number, quantisations[1])
    for op, attributes in (*candidates, (Op.QUANTIZE, Attributes())):
        if _equals_table(op, attributes, quantisations, table):
            return values.add_operator(op, [number], shape, quantisations[1], name, attributes)
    multipliers = _linear_multiplier(quantisations, table)
    if multipliers is None:
        entries = Lookup(table=tuple(table.tolist()))
        return values.add_operator(Op.LOOKUP, [number], shape, quantisations[1], name, entries)
    channels = shape[-1] if shape else 1
    image = (1, math.prod(shape) // channels, 1, channels)
    attributes = DepthwiseConv2D()
    unit = Quantisation(scale=(1.0,), zero_point=(0,))
    inputs = [
        values.add_operator(Op.RESHAPE, [number], image, quantisations[0], name),
        values.constant(np.ones((1, 1, 1, channels), np.int8), f"{name} weights", unit),
        values.constant(np.zeros(channels, np.int32), f"{name} bias"),
        values.constant(np.repeat(multipliers, channels, axis=1), f"{name} multipliers"),
    ]
    scaled = values.add_operator(
        Op.DEPTHWISE_CONV_2D, inputs, image, quantisations[1], name, attributes
    )
    return values.add_operator(Op.RESHAPE, [scaled], shape, quantisations[1], name)


def _equals_table(
    op: Op, attributes: Attributes, quantisations: tuple[Quantisation, Quantisation], table: Array
) -> bool:
    """Return whether an operator maps all bytes, in ascending order, to the bytes of a table."""
    tensors = {
        at: Tensor(name="", shape=(256,), dtype="int8", quantisation=quantisation)
        for at, quantisation in enumerate(quantisations)
    }
    node = Node(op=op, inputs=(0,), outputs=(1,), attributes=attributes, index=0)
    graph = Graph(name="", inputs=(0,), outputs=(1,), tensors=tensors, nodes=(node,))
    every = [every_byte("int8")]
    try:
        return np.array_equal(kernel_of(node, every)(graph, node, every), table)
    # The operator does not support these scales.
    except ValueError:
        return False


def _linear_multiplier(
    quantisations: tuple[Quantisation, Quantisation], table: Array
) -> Array | None:
    """Return a multiplier and shift that scale each byte to its entry in a table; None if none do.

    The result is int32 (2, 1).
    """
    (input_scale,), (output_scale,) = (each.scale for each in quantisations)
    zeros = [each.zero_point[0] for each in quantisations]
    scale = np.full(1, np.float32(input_scale) / np.float32(output_scale), np.float32)
    centred = every_byte("int8").astype(np.int64) - zeros[0]
    found = fit_multipliers(scale, (centred[:1], centred[-1:]), (-128 - zeros[1], 127 - zeros[1]))
    if found.absent:
        return None
    multiplier, shift = (int(each) for each in found.data[:, 0])
    product = centred * multiplier >> (30 - shift)
    scaled = np.clip((product + 1 >> 1) + zeros[1], -128, 127)
    return found.data if np.array_equal(scaled, table) else None
