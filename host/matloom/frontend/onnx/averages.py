"""Converts averages of bytes to sums with weights of one, which the engine computes.

ONNX Runtime scales the integer sum of QLinearGlobalAveragePool like the sum of a layer. It computes
QLinearAveragePool, and ReduceMean between DequantizeLinear and QuantizeLinear, in float32. There,
the last bits of a sum depend on all elements. If rounding errors could move the average across a
tie, the result may differ from ONNX Runtime's, and the layer is not reported as exact.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.functions import run_alone
from matloom.frontend.onnx.move_options import integers
from matloom.frontend.onnx.quantised import Model, attribute, quantisation_of
from matloom.frontend.onnx.values import LAST, Values, as_int8, in_file_order
from matloom.frontend.onnx.weighted import multipliers_for
from matloom.ir.attributes import Conv2D, DepthwiseConv2D
from matloom.ir.graph import Array, Op, Quantisation

#: Relative rounding error of float32.
_RELATIVE_ERROR = 2.0**-24
#: Operators on float32 that sum or average along axes.
_REDUCTIONS = ("ReduceMean", "ReduceSum")
#: Maximum number of elements that one result of `_REDUCTIONS` may depend on. The conversion lets
#: ONNX Runtime compute the result of every possible sum.
_MAX_WINDOW = 256


@dataclass(frozen=True, kw_only=True)
class _Average:
    """Operators of the file that together average, or sum, parts of a tensor of bytes.

    Members
    -------
    nodes:
        The operators, in order; the first reads `source`, the last makes `output`.
    input_quantisation, output_quantisation:
        Quantisations of `source` and `output`, in the file's types.
    window, strides:
        Heights and widths of the windows, and distances between windows. With `axes`, the window is
        (number of elements, 1).
    axes:
        Adjacent axes of `source` over which a reduction averages. Empty if it averages over windows
        of an image.
    is_sum:
        Whether the result is a sum, not an average.
    """

    nodes: Sequence[Any]
    source: str
    output: str
    input_quantisation: Quantisation
    output_quantisation: Quantisation
    window: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    axes: tuple[int, ...] = ()
    is_sum: bool = False


def convert_average(values: Values, model: Model, node: Any) -> Claim:
    """Convert an average pool on integers; return how many sums can differ from ONNX Runtime's.

    Raises
    ------
    Unsupported
        It does not average over windows of an image that all have the same size.
    """
    name, output_name = node.input[0], node.output[0]
    shape = values.known[name].shape
    if len(shape) != 4 or attribute(node, "channels_last", 0):
        raise Unsupported("averages over other axes than those of an image")
    window, strides = _window_and_strides(node, shape[2:], values.known[output_name].shape[2:])
    average = _Average(
        nodes=[node],
        source=name,
        output=output_name,
        input_quantisation=quantisation_of(model, node.input[1], node.input[2]),
        output_quantisation=quantisation_of(
            model, node.input[3], node.input[4] if len(node.input) > 4 else ""
        ),
        window=window,
        strides=strides,
    )
    return _add_average(values, model, average, floating=node.op_type == "QLinearAveragePool")


def convert_mean(values: Values, model: Model, index: int) -> Claim | None:
    """Convert a ReduceMean or ReduceSum between DequantizeLinear and QuantizeLinear, if possible.

    `index` is the index of QuantizeLinear. Returns how many sums can differ from ONNX Runtime's, or
    None if another operator precedes QuantizeLinear, if the reduced axes are not adjacent or are
    all axes, or if a result depends on more than `_MAX_WINDOW` elements.
    """
    last = model.proto.graph.node[index]
    mean = model.producer(last.input[0])
    first = None if mean is None else model.producer(mean.input[0])
    if mean is None or mean.op_type not in _REDUCTIONS:
        return None
    if first is None or first.op_type != "DequantizeLinear" or not values.is_bytes(first.input[0]):
        return None
    source, made = first.input[0], last.output[0]
    shape, node = values.known[source].shape, FileNode.from_proto(mean, model.opset)
    given_axes = integers(node.parameter("axes", 1, model.constant, []), "axes")
    axes = tuple(sorted({axis % len(shape) for axis in given_axes}))
    count = math.prod(shape[axis] for axis in axes)
    if not axes or not values.is_bytes(made, declared=False) or count > _MAX_WINDOW:
        return None
    if axes != tuple(range(axes[0], axes[-1] + 1)) or len(axes) == len(shape):
        return None
    image = len(shape) == len(LAST) and axes == (2, 3)
    ends = ([*each.input[1:], ""][:2] for each in (first, last))
    given, result = (quantisation_of(model, *each) for each in ends)
    average = _Average(
        nodes=[first, mean, last],
        source=source,
        output=made,
        input_quantisation=given,
        output_quantisation=result,
        window=(shape[2], shape[3]) if image else (count, 1),
        axes=() if image else axes,
        is_sum=mean.op_type == "ReduceSum",
    )
    return _add_average(values, model, average, floating=True)


def _add_average(values: Values, model: Model, average: _Average, *, floating: bool) -> Claim:
    """Convert an average; return how many of its sums can differ from ONNX Runtime's.

    `floating` says whether ONNX Runtime computes the average in float32.
    """
    count = math.prod(average.window)
    (input_scale,), (output_scale,) = (
        average.input_quantisation.scale,
        average.output_quantisation.scale,
    )
    divisor = np.float32(1 if average.is_sum else count)
    scale = np.float32(input_scale) / (np.float32(output_scale) * divisor)
    zero = as_int8(average.input_quantisation, values.known[average.source].dtype).zero_point[0]
    reach = count * (-128 - zero), count * (127 - zero)
    averages = _compute_averages(values, model, average) if floating else None
    data, claim = multipliers_for(
        np.full(1, scale, np.float32),
        (np.array([reach[0]]), np.array([reach[1]])),
        average.output_quantisation,
        values.known[average.output].dtype,
        averages,
    )
    uncertain = _count_uncertain_sums(reach, float(scale), count) if floating else 0
    (_add_axis_averages if average.axes else _add_window_averages)(values, data, average)
    differing = max(uncertain, claim.differing)
    return Claim(unit="sums", reachable=claim.reachable, differing=differing)


def _window_sum_inputs(
    values: Values, number: int, data: Array, average: _Average, channels: int
) -> list[int]:
    """Return the inputs of a depthwise convolution that sums windows of bytes in each channel.

    `number` is the image; `data` (2, 1) is the multiplier and the shift, the same for all channels.
    """
    name = average.output
    return [
        number,
        _add_ones(values, (1, *average.window, channels), name),
        values.constant(np.zeros(channels, np.int32), f"{name} bias"),
        values.constant(np.repeat(data, channels, axis=1), f"{name} multipliers"),
    ]


def _add_axis_averages(values: Values, data: Array, average: _Average) -> None:
    """Add a convolution that averages over `average.axes`, and register its output.

    If the axes are the last ones, they become the depth of a convolution with one output channel.
    Otherwise, they become the height of a depthwise convolution.
    """
    shape, name = values.known[average.source].shape, average.output
    order = in_file_order(len(shape))
    number = values.bytes_of(average.source, order, average.input_quantisation)
    outer, inner = math.prod(shape[: average.axes[0]]), math.prod(shape[average.axes[-1] + 1 :])
    count, signed = (
        average.window[0],
        as_int8(average.output_quantisation, values.known[name].dtype),
    )
    kind, attributes, places = Op.CONV_2D, Conv2D(), (1, outer, 1)
    if inner > 1:
        kind, attributes, places = Op.DEPTHWISE_CONV_2D, DepthwiseConv2D(), (outer, 1, 1)
    held = values.tensors[number].quantisation
    image = (1, outer, 1, count) if inner == 1 else (outer, count, 1, inner)
    rows = values.add_operator(Op.RESHAPE, [number], image, held, average.source)
    inputs = _window_sum_inputs(values, rows, data, average, inner)
    if inner == 1:
        inputs[1] = _add_ones(values, (1, 1, 1, count), name)
    sums = values.add_operator(kind, inputs, (*places, inner), signed, name, attributes)
    made = values.known[name].shape
    values.hold(
        name, in_file_order(len(made)), values.add_operator(Op.RESHAPE, [sums], made, signed, name)
    )


def _add_window_averages(values: Values, data: Array, average: _Average) -> None:
    """Add a depthwise convolution that averages over windows of an image; register its output."""
    name = average.output
    wanted, channels = values.known[name], values.known[average.source].shape[1]
    number = values.bytes_of(average.source, LAST, average.input_quantisation)
    inputs = _window_sum_inputs(values, number, data, average, channels)
    attributes = DepthwiseConv2D(stride=average.strides)
    signed = as_int8(average.output_quantisation, wanted.dtype)
    if len(wanted.shape) == len(LAST):
        last = tuple(wanted.shape[axis] for axis in LAST)
        pooled = values.add_operator(Op.DEPTHWISE_CONV_2D, inputs, last, signed, name, attributes)
        values.hold(name, LAST, pooled)
        return
    images, channels = wanted.shape
    single = (images, 1, 1, channels)
    pooled = values.add_operator(Op.DEPTHWISE_CONV_2D, inputs, single, signed, name, attributes)
    flat = values.add_operator(Op.RESHAPE, [pooled], wanted.shape, signed, name)
    values.hold(name, in_file_order(len(wanted.shape)), flat)


def _window_and_strides(
    node: Any, image: tuple[int, ...], output: tuple[int, ...]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the window and the strides; raise `Unsupported` if a window leaves the image."""
    if node.op_type == "QLinearGlobalAveragePool":
        return (image[0], image[1]), (1, 1)
    window = tuple(attribute(node, "kernel_shape", []))
    strides = tuple(attribute(node, "strides", [1, 1]))
    dilations = tuple(attribute(node, "dilations", [1, 1]))
    kind = attribute(node, "auto_pad", b"NOTSET").decode()
    padded = any(attribute(node, "pads", [])) or kind.startswith("SAME")
    inside = all(
        (count - 1) * stride + taps <= size
        for count, stride, taps, size in zip(output, strides, window, image, strict=True)
    )
    if len(window) != 2 or dilations != (1, 1) or padded or not inside:
        raise Unsupported("averages over windows that reach beyond the image")
    return (window[0], window[1]), (strides[0], strides[1])


def _compute_averages(values: Values, model: Model, average: _Average) -> Array:
    """Return ONNX Runtime's result for every sum of a window, minus the zero point.

    The results are int64, in ascending order of the sums. ONNX Runtime gets one window for each
    sum, whose elements are equal or differ by one.
    """
    kind = values.known[average.source].dtype
    count, least = math.prod(average.window), int(np.iinfo(kind).min)
    sums = np.arange(255 * count + 1)[:, np.newaxis]
    elements = (sums // count + least).astype(np.int16) + (np.arange(count) < sums % count)
    images = elements.astype(kind).reshape(-1, 1, *average.window)
    if average.axes:
        images = _spread_windows(elements.astype(kind), average, values.known[average.source].shape)
    dtype = values.known[average.output].dtype
    outputs = run_alone(model.proto, average.nodes, {average.source: images}, average.output, dtype)
    averages: Array = (
        outputs.reshape(-1).astype(np.int64) - average.output_quantisation.zero_point[0]
    )
    return averages


def _spread_windows(elements: Array, average: _Average, shape: tuple[int, ...]) -> Array:
    """Return windows as a tensor that a reduction over `average.axes` can read.

    `elements` is (windows, elements); `shape` is the shape of the file's tensor. In the result, the
    elements of a window lie along the averaged axes, and the windows along another axis.
    """
    reduced = [shape[axis] for axis in average.axes]
    before, after = average.axes[0], len(shape) - average.axes[-1] - 1
    if before:
        return elements.reshape(-1, *[1] * (before - 1), *reduced, *[1] * after)
    return elements.T.reshape(*reduced, -1, *[1] * (after - 1))


def _add_ones(values: Values, shape: tuple[int, ...], name: str) -> int:
    """Add a constant of int8 ones, of scale 1, as weights for sums; return its tensor number."""
    quantisation = Quantisation(scale=(1.0,), zero_point=(0,))
    return values.constant(np.ones(shape, np.int8), f"{name} weights", quantisation)


def _count_uncertain_sums(sum_range: tuple[int, int], scale: float, count: int) -> int:
    """Return the number of sums whose scaled value is so near a half that float32 may misround it.

    `sum_range` is the smallest and the largest sum, both inclusive; `scale` is their factor.
    Float32 rounds each of the `count` elements, each addition, and both quotients once; this
    function rounds the scale and its product.
    """
    largest = max(abs(sum_range[0]), abs(sum_range[1])) * scale
    error = (count + 6) * _RELATIVE_ERROR * largest
    quotients: Array = np.arange(sum_range[0], sum_range[1] + 1) * scale
    beyond = np.abs(quotients) > 256
    near = np.abs(quotients - np.floor(quotients) - 0.5) <= error
    return int((near & ~beyond).sum())
