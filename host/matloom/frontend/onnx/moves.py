"""ONNX operators that move bytes between operators on the engine."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.move_options import MoveOptions
from matloom.frontend.onnx.parts import add_parts
from matloom.frontend.onnx.quantised import Model, attribute
from matloom.frontend.onnx.values import LAST, Order, Values, in_file_order, kept_axes
from matloom.frontend.onnx.weighted import spatial_padding
from matloom.ir.attributes import Attributes, Pool2D, Transpose
from matloom.ir.graph import Op


def reshape(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Reshape, Flatten, Squeeze, Unsqueeze and Identity, which keep the file's order.

    A value that is held in another order is moved only when a reader needs the file's order.
    """
    value, wanted = values.known[source], values.known[output]
    wanted.quantisation, wanted.flattened = value.quantisation, source
    plain = kept_axes(in_file_order(len(value.shape)), value.shape)
    if not value.held or any(kept_axes(order, value.shape) == plain for order in value.held):
        values.bytes_of(output, in_file_order(len(wanted.shape)))


def transpose(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Transpose: the same tensor with another axis order."""
    value = values.known[source]
    rank = len(value.shape)
    permutation = list(attribute(node, "perm", list(reversed(range(rank)))))
    if not value.held:
        values.bytes_of(source, in_file_order(rank))
    for order, number in value.held.items():
        values.hold(output, tuple(permutation.index(axis) for axis in order), number)


def max_pool(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert MaxPool of images."""
    value, wanted = values.known[source], values.known[output]
    window = tuple(attribute(node, "kernel_shape", []))
    strides = tuple(attribute(node, "strides", [1] * len(window)))
    dilations = tuple(attribute(node, "dilations", [1] * len(window)))
    if len(window) != 2 or dilations != (1, 1) or len([name for name in node.output if name]) > 1:
        raise Unsupported("has a window of other than two dimensions, or gaps in it, or indices")
    if attribute(node, "ceil_mode", 0) or attribute(node, "storage_order", 0):
        raise Unsupported("has an output whose size is rounded up")
    image = list(value.shape[2:])
    padding = spatial_padding(node, image, window, (strides, dilations), wanted.shape[2:])
    number = values.bytes_of(source, LAST)
    attributes = Pool2D(window=window, stride=strides, padding=padding)
    shape = tuple(wanted.shape[axis] for axis in LAST)
    pooled = values.add_operator(
        Op.MAX_POOL_2D, [number], shape, value.quantisation, output, attributes
    )
    values.hold(output, LAST, pooled)


def _options(values: Values, model: Model, node: Any, source: str) -> MoveOptions:
    file_node = FileNode.of(node, model.opset)
    return MoveOptions(file_node, values.known[source].shape, model.constant)


def split(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Split."""
    axis, sizes = _options(values, model, node, source).split()
    order = values.order_of(source)
    number = values.bytes_of(source, order)
    parts = add_parts(values, number, order.index(axis), sizes, node.output)
    for name, part in zip(node.output, parts, strict=True):
        if name in values.known:
            values.hold(name, order, part)


def slice_part(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Slice."""
    order = values.order_of(source)
    attributes = _options(values, model, node, source).slice(order)
    _add_move(values, Op.STRIDED_SLICE, attributes, order, (source, output))


def pad(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Pad with a constant, which is a byte of the file's type; or 0, between floats."""
    order = values.order_of(source)
    attributes = _options(values, model, node, source).pad(order)
    names = [*node.input, "", ""]
    number = values.bytes_of(source, order)
    zero = values.tensors[number].zero_point
    value = int(attributes.value or 0) - (128 if values.known[source].dtype == "uint8" else 0)
    if names[2] and model.constant(names[2]).dtype == np.float32:
        if attributes.value:
            raise Unsupported("pads floats with another number than 0")
        value = zero
    op, given = (Op.PAD, None) if value == zero else (Op.PADV2, value)
    _add_move(values, op, replace(attributes, value=given), order, (source, output))


def resize(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert Resize by whole factors to the nearest neighbour."""
    attributes = _options(values, model, node, source).resize()
    _add_move(values, Op.RESIZE_NEAREST_NEIGHBOR, attributes, LAST, (source, output))


def _add_move(
    values: Values, op: Op, attributes: Attributes, order: Order, names: tuple[str, str]
) -> None:
    """Add an operator on a value in an axis order; `names` are those of its input and output."""
    source, made = names
    number = values.bytes_of(source, order)
    shape = tuple(values.known[made].shape[axis] for axis in order)
    quantisation = values.tensors[number].quantisation
    values.hold(
        made, order, values.add_operator(op, [number], shape, quantisation, made, attributes)
    )


def exchange_blocks(values: Values, model: Model, node: Any, source: str, output: str) -> None:
    """Convert DepthToSpace and SpaceToDepth, which exchange channels and positions of an image."""
    number = values.bytes_of(source, LAST)
    quantisation = values.tensors[number].quantisation
    steps, shape = _options(values, model, node, source).exchange_blocks()
    attributes = Transpose(permutation=(0, 2, 1, 3))
    for first, one, other, last in steps:
        before, after = (first, one, other, last), (first, other, one, last)
        number = values.add_operator(Op.RESHAPE, [number], before, quantisation, output)
        number = values.add_operator(
            Op.TRANSPOSE, [number], after, quantisation, output, attributes
        )
    values.hold(
        output, LAST, values.add_operator(Op.RESHAPE, [number], shape, quantisation, output)
    )


#: Converters by operator name; the last arguments are the names of input 0 and output 0.
MOVES: dict[str, Callable[[Values, Model, Any, str, str], None]] = {
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), exchange_blocks),
    **dict.fromkeys(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"), reshape),
    "MaxPool": max_pool,
    "Pad": pad,
    "Resize": resize,
    "Slice": slice_part,
    "Split": split,
    "Transpose": transpose,
}
