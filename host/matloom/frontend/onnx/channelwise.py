"""Functions of a byte that differ by channel: PRelu, and products and quotients with constants.

A product is a depthwise convolution with a multiplier for each channel. PRelu is the maximum or
the minimum of two such products. ONNX Runtime computes the results for all bytes of all channels,
and those that the engine computes differently are counted.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.functions import bytes_as_int8, constant_value, every_byte, run_alone
from matloom.frontend.onnx.quantised import Model, quantisation_of
from matloom.frontend.onnx.values import Order, Values, as_int8, in_file_order
from matloom.ir.attributes import DepthwiseConv2D
from matloom.ir.graph import Array, Op, Quantisation

#: Smallest and largest multiplier.
_MIN_MULTIPLIER, _MAX_MULTIPLIER = 2**30, 2**31 - 1
#: Largest magnitude of a weight, and largest right shift: beyond it, all results are zero.
_MAX_WEIGHT, _MAX_RIGHT_SHIFT = 64, 20
#: A bound that exceeds the product of any sum and any multiplier.
_ABOVE_ANY_PRODUCT = 2**62


@dataclass(frozen=True, kw_only=True)
class _Function:
    """An operator between DequantizeLinear and QuantizeLinear that has a constant for each channel.

    Members
    -------
    op:
        Name of the operator in the file.
    source, output:
        Names of the values of bytes that it reads and makes.
    ends:
        Quantisations of `source` and `output`, as int8.
    order:
        Order of axes in which `source` is read, with channels last.
    slopes:
        float64 (channels,): factor of each channel. The slopes of a PRelu multiply only negative
        inputs.
    results:
        int64 (channels, 256): results of ONNX Runtime for all bytes, as int8, in ascending order.
    """

    op: str
    source: str
    output: str
    ends: tuple[Quantisation, Quantisation]
    order: Order
    slopes: Array
    results: Array


@dataclass(frozen=True, kw_only=True)
class _Lines:
    """A linear function of a byte for each channel, with the engine's multipliers and results.

    `weights` (int8, (channels,)) are powers of two, with the sign of the slope, or 0. `multipliers`
    (int32, (2, channels)) are multipliers and shifts. `results` (int64, (channels, 256)) are the
    results for all bytes in ascending order.
    """

    weights: Array
    multipliers: Array
    results: Array


def convert_channels(values: Values, model: Model, index: int) -> Claim | None:
    """Convert a PRelu, Mul or Div by a constant per channel, before a QuantizeLinear, if possible.

    `index` is the index of QuantizeLinear in the model. Returns how many results can differ from
    ONNX Runtime's; None if another operator precedes QuantizeLinear.

    Raises
    ------
    Unsupported
        The engine has no such function.
    """
    function = _find_function(values, model, index)
    if function is None:
        return None
    combine, op = _find_combination(function)
    lines = [_fit_lines(function, function.slopes)]
    if op is not None:
        lines.append(_fit_lines(function, np.ones(len(function.slopes)), positive=True))
    _add_operators(values, function, lines, op)
    differing = (combine([each.results for each in lines]) != function.results).sum(axis=1)
    return Claim(
        unit="bytes",
        reachable=function.results.size,
        differing=int(differing.sum()),
        channels=len(differing),
        affected=int((differing > 0).sum()),
    )


def _find_function(values: Values, model: Model, index: int) -> _Function | None:
    """Return the PRelu, Mul or Div before the QuantizeLinear at `index`; None if there is none.

    The result is None if another operator is there, or it has no constant for each channel.
    `index` is the index of QuantizeLinear in the model.
    """
    last = model.proto.graph.node[index]
    node = model.producer(last.input[0])
    if node is None or node.op_type not in ("Div", "Mul", "PRelu"):
        return None
    operands = [model.producer(name) for name in node.input]
    constants = [constant_value(model, name) for name in node.input]
    at = 0 if constants[0] is None else 1
    data, factors, made = operands[at], constants[1 - at], last.output[0]
    if data is None or factors is None or (at and node.op_type != "Mul"):
        return None
    source = data.input[0]
    if data.op_type != "DequantizeLinear" or not values.is_bytes(source):
        return None
    if not values.is_bytes(made, declared=False):
        return None
    shape, known = values.known[source].shape, values.known
    axis = _channel_axis(factors, shape)
    if axis is None or known[made].shape != shape:
        return None
    slopes = factors.reshape(-1).astype(np.float64)
    if node.op_type == "Div":
        slopes = 1 / np.where(slopes == 0, np.nan, slopes)
    ends = [quantisation_of(model, *[*each.input[1:], ""][:2]) for each in (data, last)]
    nodes = [each for each in operands if each is not None]
    nodes += [node, last]
    return _Function(
        op=node.op_type,
        source=source,
        output=made,
        ends=(as_int8(ends[0], known[source].dtype), as_int8(ends[1], known[made].dtype)),
        order=_channels_last(values, source, axis),
        slopes=slopes,
        results=_results_of_bytes(model, nodes, (source, made), values, axis),
    )


def _channel_axis(factors: Array, shape: tuple[int, ...]) -> int | None:
    """Return the axis of a tensor of this shape along which factors differ.

    The result is None unless the factors, aligned by broadcasting, have exactly one axis longer
    than 1, and the tensor has the same length along it and at least two axes.
    """
    aligned = (*[1] * (len(shape) - factors.ndim), *factors.shape)
    axes = [axis for axis, size in enumerate(aligned) if size > 1]
    fits = len(axes) == 1 and len(aligned) == len(shape) > 1
    return axes[0] if fits and aligned[axes[0]] == shape[axes[0]] else None


def _channels_last(values: Values, name: str, axis: int) -> Order:
    """Return an order of a value's axes that ends with `axis`; the current order if it does."""
    plain = in_file_order(len(values.known[name].shape))
    held = values.order_of(name)
    return held if held[-1] == axis else (*plain[:axis], *plain[axis + 1 :], axis)


def _results_of_bytes(
    model: Model, nodes: list[Any], names: tuple[str, str], values: Values, axis: int
) -> Array:
    """Return ONNX Runtime's results for all bytes of all channels, as int64 (channels, 256).

    `names` are the values that the first of `nodes` reads and the last one makes; `axis` is the
    axis of the channels.
    """
    source, made = (values.known[name] for name in names)
    rank, channels = len(source.shape), source.shape[axis]
    shape = [channels if at == axis else 1 for at in range(rank)]
    other = 0 if axis else rank - 1
    shape[other] = 256
    given = every_byte(source.dtype).reshape([256 if at == other else 1 for at in range(rank)])
    given = np.ascontiguousarray(np.broadcast_to(given, shape))
    found = run_alone(model.proto, nodes, {names[0]: given}, names[1], made.dtype)
    rows: Array = np.moveaxis(found, (axis, other), (0, 1)).reshape(channels, 256)
    return bytes_as_int8(rows).astype(np.int64)


def _find_combination(function: _Function) -> tuple[Any, Op | None]:
    """Return the minimum or maximum of the two `_Lines` of a PRelu, in NumPy and as an operator.

    It is returned as a NumPy function and as an operator of the graph. The operator is None for
    functions that have only one `_Lines`.

    Raises
    ------
    Unsupported
        A PRelu has slopes below and above 1.
    """
    if function.op != "PRelu":
        return lambda results: results[0], None
    if (function.slopes <= 1).all():
        return lambda results: np.maximum(*results), Op.MAXIMUM
    if (function.slopes >= 1).all():
        return lambda results: np.minimum(*results), Op.MINIMUM
    raise Unsupported("has slopes below and above 1")


def _fit_lines(function: _Function, slopes: Array, *, positive: bool = False) -> _Lines:
    """Return the linear functions with these slopes that agree best with ONNX Runtime's results.

    For a PRelu, only inputs of one sign matter: those not below zero if `positive`, otherwise those
    below. For all other inputs, ideal results replace ONNX Runtime's.

    Raises
    ------
    Unsupported
        The engine has no multiplier for a slope.
    """
    zeros = [end.zero_point[0] for end in function.ends]
    centred = every_byte("int8").astype(np.int64) - zeros[0]
    limits = -128 - zeros[1], 127 - zeros[1]
    weights, multipliers = np.zeros(len(slopes), np.int64), np.zeros((2, len(slopes)), np.int32)
    results = np.zeros((len(slopes), 256), np.int64)
    for channel, slope in enumerate(slopes):
        scale = slope * function.ends[0].scale[0] / function.ends[1].scale[0]
        wanted = function.results[channel] - zeros[1]
        if function.op == "PRelu":
            ideal = np.clip(np.rint(centred * scale), *limits).astype(np.int64)
            wanted = np.where((centred >= 0) == positive, wanted, ideal)
        weight, right = _weight_and_shift(scale)
        multiplier = _best_multiplier(centred * weight, wanted, limits, right)
        products = (centred * weight * multiplier >> (30 + right)) + 1 >> 1
        weights[channel], multipliers[:, channel] = weight, (multiplier, -right)
        results[channel] = np.clip(products, *limits) + zeros[1]
    return _Lines(weights=weights.astype(np.int8), multipliers=multipliers, results=results)


def _weight_and_shift(scale: float) -> tuple[int, int]:
    """Return a weight and a right shift such that the multiplier for a scale has 31 bits.

    Both are 0 if the scale is so small that all results are zero.

    Raises
    ------
    Unsupported
        The scale is not finite, or too large.
    """
    exponent = int(np.frexp(scale)[1])
    if not np.isfinite(scale) or exponent > _MAX_WEIGHT.bit_length() - 1:
        raise Unsupported("has factors beyond the engine's multipliers")
    if exponent < -_MAX_RIGHT_SHIFT:
        return 0, 0
    return int(np.sign(scale)) << max(exponent, 0), max(-exponent, 0)


def _best_multiplier(
    sums: Array, expected: Array, limits: tuple[int, int], right_shift: int
) -> int:
    """Return the multiplier with which most of the scaled sums equal the expected results.

    `limits` are the smallest and the largest result, to which results beyond them are clamped;
    `right_shift` is the right shift. Unlike in `steps.fit_multipliers`, results may fall as sums
    rise, and sums may be more than 1 apart.
    """
    half, size = 1 << (30 + right_shift), np.maximum(np.abs(sums), 1)
    # The products that round to each result, half open; beyond the limits all do.
    least = np.where(expected > limits[0], (2 * expected - 1) * half, -_ABOVE_ANY_PRODUCT)
    most = np.where(expected < limits[1], (2 * expected + 1) * half - 1, _ABOVE_ANY_PRODUCT)
    low = np.where(sums < 0, -most, least)
    high = np.where(sums < 0, -least, most)
    first = np.clip(-(-low // size), _MIN_MULTIPLIER, _MAX_MULTIPLIER + 1)[sums != 0]
    last = np.clip(high // size, _MIN_MULTIPLIER - 1, _MAX_MULTIPLIER)[sums != 0]
    candidates = np.unique(first[first <= last])
    if not len(candidates):
        return _MIN_MULTIPLIER
    agreeing = ((first <= candidates[:, np.newaxis]) & (candidates[:, np.newaxis] <= last)).sum(1)
    best: int = int(candidates[agreeing.argmax()])
    return best


def _add_operators(values: Values, function: _Function, lines: list[_Lines], op: Op | None) -> None:
    """Add a depthwise convolution for each of `lines`, and `op`, which combines two of them.

    `op` is None if there is only one. The last result becomes the function's output.
    """
    name, (given, made) = function.output, function.ends
    number = values.read_as(values.bytes_of(function.source, function.order), given)
    shape, channels = values.tensors[number].shape, len(function.slopes)
    image = (1, math.prod(shape) // channels, 1, channels)
    rows = values.add_operator(Op.RESHAPE, [number], image, given, name)
    unit = Quantisation(scale=(1.0,), zero_point=(0,))
    found = []
    for line in lines:
        inputs = [
            rows,
            values.constant(line.weights.reshape(1, 1, 1, -1), f"{name} weights", unit),
            values.constant(np.zeros(channels, np.int32), f"{name} bias"),
            values.constant(line.multipliers, f"{name} multipliers"),
        ]
        layer = Op.DEPTHWISE_CONV_2D, inputs, image, made, name, DepthwiseConv2D()
        found.append(values.add_operator(*layer))
    result = found[0] if op is None else values.add_operator(op, found, image, made, name)
    values.hold(name, function.order, values.add_operator(Op.RESHAPE, [result], shape, made, name))
