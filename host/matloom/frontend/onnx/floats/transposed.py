"""Converts ConvTranspose, whose windows may overlap in the output."""

from typing import NamedTuple

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.layers import bias_of, filters_of, hold_image, image_of, pair
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.ir.attributes import Padding, TransposeConv
from matloom.ir.graph import Array, Op


class _Axis(NamedTuple):
    """Size of the output along an axis, and the numbers of positions cut off on both sides."""

    size: int
    before: int
    after: int


def convert_transposed(values: FloatValues, node: FileNode) -> None:
    """Convert a ConvTranspose of an image or a line to TRANSPOSE_CONV."""
    weights = filters_of(values, node)
    number = image_of(values, node.source)
    weights = whole_weights(weights, int(node.options.get("group", 1)))
    image, window = values.builder.tensors[number].shape, (weights.shape[2], weights.shape[3])
    attributes = transposed_attributes(node, (image[1], image[2]), window)
    filters = np.ascontiguousarray(weights.transpose(1, 2, 3, 0))
    operands = [number, values.builder.constant(filters, name=node.inputs[1])]
    operands += bias_of(values, node.input(2), len(filters))
    made = values.add(Op.TRANSPOSE_CONV, operands, attributes, name=node.output)
    hold_image(values, node, made)


def transposed_attributes(
    node: FileNode, image: tuple[int, int], window: tuple[int, int]
) -> TransposeConv:
    """Return the attributes of a ConvTranspose.

    `image` and `window` are the heights and widths of the input and the window.

    Raises
    ------
    Unsupported
        The window has gaps, or no window reaches some rows or columns of the output.
    """
    if pair(node, "dilations") != (1, 1):
        raise Unsupported("has gaps in its window")
    stride = pair(node, "strides")
    rows, columns = (_output_axis(node, image[at], window[at], stride[at], at) for at in range(2))
    padding = Padding(top=rows.before, left=columns.before, bottom=rows.after, right=columns.after)
    return TransposeConv(stride=stride, padding=padding, size=(rows.size, columns.size))


def whole_weights(weights: Array, groups: int) -> Array:
    """Return weights (inputs, outputs of all groups, height, width), with zeros between groups.

    `weights` is (inputs, outputs of a group, height, width).
    """
    if groups == 1:
        return weights
    inputs, outputs, *window = weights.shape
    made = np.zeros((inputs, groups * outputs, *window), weights.dtype)
    depth = inputs // groups
    for group in range(groups):
        read = slice(group * depth, (group + 1) * depth)
        made[read, group * outputs : (group + 1) * outputs] = weights[read]
    return made


def _output_axis(node: FileNode, size: int, taps: int, step: int, at: int) -> _Axis:
    """Return the output's size along height (`at` 0) or width (`at` 1), and the cut-off ends.

    `size` is the size of the input, `taps` that of the window, and `step` the stride.
    """
    kind = node.options.get("auto_pad", b"NOTSET").decode()
    more, wanted = (
        _axis_attribute(node, "output_padding", at, 0) or 0,
        _axis_attribute(node, "output_shape", at, 1),
    )
    whole = step * (size - 1) + taps + more
    if wanted is None and kind.startswith("SAME"):
        wanted = size * step
    if wanted is None:
        before, after = (0, 0) if kind == "VALID" else _cut_off(node, at)
    else:
        less, rest = (whole - wanted) // 2, -(-(whole - wanted) // 2)
        before, after = (less, rest) if kind == "SAME_UPPER" else (rest, less)
    made = whole - before - after
    if min(before, after, made - 1) < 0 or more - after >= step:
        raise Unsupported("makes rows or columns that no window reaches")
    # What `output_padding` adds is less to cut off at the end.
    return _Axis(made, before, max(0, after - more))


def _axis_attribute(node: FileNode, name: str, at: int, line: int) -> int | None:
    """Return an attribute for height (`at` 0) or width (`at` 1); None if it is absent.

    For one-dimensional data, the result for height is `line`.
    """
    given = [int(each) for each in node.options.get(name, [])]
    given = [line, *given] if len(given) == 1 else given
    return given[at] if given else None


def _cut_off(node: FileNode, at: int) -> tuple[int, int]:
    """Return the numbers of rows or columns that `pads` cuts off before and after the output.

    `at` is 0 for height, 1 for width.
    """
    pads = [int(each) for each in node.options.get("pads", [0] * 4)]
    pads = [0, pads[0], 0, pads[1]] if len(pads) == 2 else pads
    return pads[at], pads[at + 2]
