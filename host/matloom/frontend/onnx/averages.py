"""Runs QLinearAveragePool and QLinearGlobalAveragePool on the engine, as sums with weights of one.

ONNX Runtime scales the integer sum of a global average like the sum of a layer. It computes any
other average in float32, where the last bits depend on all elements: a sum is counted as uncertain
if rounding errors could carry its quotient across a half.
"""

import math
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.functions import run_alone
from matloom.frontend.onnx.quantised import Model, attribute, quantisation_of
from matloom.frontend.onnx.values import LAST, Values, as_signed
from matloom.frontend.onnx.weighted import stated_multipliers
from matloom.ir.attributes import DepthwiseConv2D
from matloom.ir.graph import Array, Op, Quantisation

#: Relative rounding error of float32.
_ROUNDING = 2.0**-24


def convert_average(values: Values, model: Model, node: Any) -> Claim:
    """Add an average operator; return how many of its sums can differ from ONNX Runtime's.

    Raises
    ------
    Unsupported
        It does not average over windows of an image that all have the same size.
    """
    name, output_name = node.input[0], node.output[0]
    shape = values.known[name].shape
    if len(shape) != 4 or attribute(node, "channels_last", 0):
        raise Unsupported("averages over other axes than those of an image")
    window, strides = _windows(node, shape[2:], values.known[output_name].shape[2:])
    quantisation = quantisation_of(model, node.input[1], node.input[2])
    result = quantisation_of(model, node.input[3], node.input[4] if len(node.input) > 4 else "")
    count, channels = math.prod(window), shape[1]
    scale = np.float32(quantisation.scale[0]) / (np.float32(result.scale[0]) * np.float32(count))
    zero = as_signed(quantisation, values.known[name].dtype).zero_point[0]
    reach = count * (-128 - zero), count * (127 - zero)
    averages, uncertain = None, 0
    if node.op_type == "QLinearAveragePool":
        averages = _averages(values, model, node, window)
        uncertain = _uncertain(reach, float(scale), count)
    data, claim = stated_multipliers(
        np.full(1, scale, np.float32),
        (np.array([reach[0]]), np.array([reach[1]])),
        result,
        values.known[output_name].dtype,
        averages,
    )
    uncertain = max(uncertain, claim.differing)
    inputs = [
        values.bytes_of(name, LAST, quantisation),
        _ones(values, (1, *window, channels), output_name),
        values.constant(np.zeros(channels, np.int32), f"{output_name} bias"),
        values.constant(np.repeat(data, channels, axis=1), f"{output_name} multipliers"),
    ]
    _hold_sums(values, inputs, strides, result, output_name)
    return Claim(unit="sums", reachable=claim.reachable, differing=uncertain)


def _hold_sums(
    values: Values, inputs: list[int], strides: tuple[int, int], result: Quantisation, made: str
) -> None:
    """Add the operator of sums, and register its output as the node's value."""
    wanted = values.known[made]
    attributes = DepthwiseConv2D(stride=strides)
    last = tuple(wanted.shape[axis] for axis in LAST)
    signed = as_signed(result, wanted.dtype)
    pooled = values.made(Op.DEPTHWISE_CONV_2D, inputs, last, signed, made, attributes)
    values.hold(made, LAST, pooled)


def _windows(
    node: Any, image: tuple[int, ...], made: tuple[int, ...]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the window and the strides of an average."""
    if node.op_type == "QLinearGlobalAveragePool":
        return (image[0], image[1]), (1, 1)
    window = tuple(attribute(node, "kernel_shape", []))
    strides = tuple(attribute(node, "strides", [1, 1]))
    dilations = tuple(attribute(node, "dilations", [1, 1]))
    kind = attribute(node, "auto_pad", b"NOTSET").decode()
    padded = any(attribute(node, "pads", [])) or kind.startswith("SAME")
    inside = all(
        (count - 1) * stride + taps <= size
        for count, stride, taps, size in zip(made, strides, window, image, strict=True)
    )
    if len(window) != 2 or dilations != (1, 1) or padded or not inside:
        raise Unsupported("averages over windows that reach beyond the image")
    return (window[0], window[1]), (strides[0], strides[1])


def _averages(values: Values, model: Model, node: Any, window: tuple[int, int]) -> Array:
    """Return ONNX Runtime's average for each sum of a window, minus the zero point.

    Test windows have elements that are equal or differ by one.
    """
    kind = values.known[node.input[0]].dtype
    count, least = math.prod(window), int(np.iinfo(kind).min)
    sums = np.arange(255 * count + 1)[:, np.newaxis]
    elements = sums // count + (np.arange(count) < sums % count) + least
    images = elements.astype(kind).reshape(-1, 1, *window)
    given, output = {node.input[0]: images}, node.output[0]
    made = run_alone(model.proto, [node], given, output, values.known[output].dtype)
    zero = model.constant(node.input[4]) if len(node.input) > 4 else np.zeros(1)
    averages: Array = made.reshape(-1).astype(np.int64) - int(zero.item())
    return averages


def _ones(values: Values, shape: tuple[int, ...], made: str) -> int:
    quantisation = Quantisation(scale=(1.0,), zero_point=(0,))
    return values.constant(np.ones(shape, np.int8), f"{made} weights", quantisation)


def _uncertain(reach: tuple[int, int], scale: float, count: int) -> int:
    """Return how many sums are so close to a half that float32 could round them differently.

    Float32 rounds each of the `count` numbers, each addition, and both quotients once; this
    function rounds the scale and its product.
    """
    largest = max(abs(reach[0]), abs(reach[1])) * scale
    error = (count + 6) * _ROUNDING * largest
    quotients: Array = np.arange(reach[0], reach[1] + 1) * scale
    beyond = np.abs(quotients) > 256
    near = np.abs(quotients - np.floor(quotients) - 0.5) <= error
    return int((near & ~beyond).sum())
