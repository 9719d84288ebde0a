"""Converts operators that move elements."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.edges import extend
from matloom.frontend.onnx.floats.interpolation import interpolate, resize_axes
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.move_options import MoveOptions, integers
from matloom.frontend.onnx.values import LAST, Order, in_file_order, kept_axes
from matloom.ir.attributes import Axis, Split, Transpose
from matloom.ir.graph import Op


def _target_shape(values: FloatValues, node: FileNode) -> tuple[int, ...]:
    """Return the output shape of Reshape, Flatten, Squeeze or Unsqueeze."""
    shape = values.shape(node.source)
    if node.op == "Flatten":
        axis = int(node.options.get("axis", 1))
        axis += len(shape) if axis < 0 else 0
        return math.prod(shape[:axis]), math.prod(shape[axis:])
    if node.op == "Reshape":
        wanted = integers(values.option(node, "shape", 1), "sizes")
        if not node.options.get("allowzero", 0):
            wanted = [shape[at] if size == 0 else size for at, size in enumerate(wanted)]
        known = -math.prod(wanted) if -1 in wanted else 1
        return tuple(math.prod(shape) // known if size == -1 else size for size in wanted)
    given = values.option(node, "axes", 1)
    if node.op == "Squeeze":
        stated = None if given is None else integers(given, "axes")
        axes = None if stated is None else {axis % len(shape) for axis in stated}
        return tuple(
            size
            for axis, size in enumerate(shape)
            if (axis not in axes if axes is not None else size != 1)
        )
    inserted = integers(given, "axes")
    rank = len(shape) + len(inserted)
    places, rest = {axis % rank for axis in inserted}, iter(shape)
    return tuple(1 if axis in places else next(rest) for axis in range(rank))


def _channels_last_order(rank: int) -> Order:
    """Return the order of axes in which the second axis of the file comes last."""
    return (0, *range(2, rank), 1)


def _convert_reshape(values: FloatValues, node: FileNode) -> None:
    """Convert a Reshape, Flatten, Squeeze or Unsqueeze, without a transposition if possible."""
    shape, wanted = values.shape(node.source), _target_shape(values, node)
    held = values.tensors_of(node.source)
    if node.op in ("Squeeze", "Unsqueeze"):
        _reshape_unit_axes(values, node, wanted)
        return
    image = values.flattened.get(node.source)
    if image is not None and wanted == values.shape(image):
        values.copy(image, node.output)
        return
    plain = kept_axes(in_file_order(len(shape)), shape)
    for order, number in held.items():
        if kept_axes(order, shape) == plain:
            made = values.add(Op.RESHAPE, [number], shape=wanted, name=node.output)
            values.hold(node.output, in_file_order(len(wanted)), made)
            return
    last = held.get(_channels_last_order(len(shape)))
    if last is not None and min(len(shape), len(wanted)) > 2 and shape[:2] == wanted[:2]:
        # Only positions have other axes.
        order = _channels_last_order(len(wanted))
        target = tuple(wanted[axis] for axis in order)
        made = values.add(Op.RESHAPE, [last], shape=target, name=node.output)
        values.hold(node.output, order, made)
        return
    if len(shape) == len(LAST):
        values.flattened[node.output] = node.source
    number = values.in_file_order(node.source)
    made = values.add(Op.RESHAPE, [number], shape=wanted, name=node.output)
    values.hold(node.output, in_file_order(len(wanted)), made)


def _reshape_unit_axes(values: FloatValues, node: FileNode, target_shape: tuple[int, ...]) -> None:
    """Convert Squeeze or Unsqueeze; all axes longer than one keep their current order.

    `target_shape` is the shape of the output in the file.
    """
    shape = values.shape(node.source)
    order, number = next(iter(values.tensors_of(node.source).items()))
    before = [axis for axis, size in enumerate(shape) if size != 1]
    after = [axis for axis, size in enumerate(target_shape) if size != 1]
    places = dict(zip(before, after, strict=True))
    moved = iter([places[axis] for axis in order if axis in places])
    made = tuple(axis if size == 1 else next(moved) for axis, size in enumerate(target_shape))
    target = tuple(target_shape[axis] for axis in made)
    values.hold(node.output, made, values.add(Op.RESHAPE, [number], shape=target, name=node.output))


def _convert_expand(values: FloatValues, node: FileNode) -> None:
    """Convert Expand: record the output's shape, without repeating elements.

    `FloatValues` repeats them for readers that do not broadcast.
    """
    wanted = integers(values.option(node, "shape", 1), "sizes")
    shape = values.shape(node.source)
    made = np.broadcast_shapes(shape, tuple(wanted))
    values.held[node.output] = dict(values.held[node.source])
    if len(made) > len(shape):
        full = (1,) * (len(made) - len(shape)) + shape
        number = values.add(Op.RESHAPE, [values.in_file_order(node.source)], shape=full)
        values.held[node.output] = {in_file_order(len(made)): number}
    if made != values.held_shape(node.output):
        values.expanded[node.output] = made


def _convert_transpose(values: FloatValues, node: FileNode) -> None:
    """Convert a Transpose by recording another order of axes; no operator is added."""
    rank = len(values.shape(node.source))
    permutation = list(node.options.get("perm", list(reversed(range(rank)))))
    for order, number in list(values.tensors_of(node.source).items()):
        values.hold(node.output, tuple(permutation.index(axis) for axis in order), number)


def _convert_concatenation(values: FloatValues, node: FileNode) -> None:
    """Convert a Concat in the order of axes that its computed inputs have."""
    computed = [name for name in node.inputs if not values.is_constant(name)]
    order = values.order_of(computed)
    axis = int(node.options["axis"]) % len(order)
    operands = [values.tensor_in_order(name, order) for name in node.inputs]
    attributes = Axis(axis=order.index(axis))
    values.hold(
        node.output, order, values.add(Op.CONCATENATION, operands, attributes, name=node.output)
    )


def _options(values: FloatValues, node: FileNode) -> MoveOptions:
    """Return the reader of a node's axes, sizes and other options."""
    return MoveOptions(node, values.shape(node.source), values.constant)


def _convert_split(values: FloatValues, node: FileNode) -> None:
    """Convert a Split into parts of equal or of listed sizes."""
    order = values.order_of([node.source])
    axis, sizes = _options(values, node).split()
    number = values.tensor_in_order(node.source, order)
    place, tensor = order.index(axis), values.builder.tensors[number]
    made = []
    for name, size in zip(node.outputs, sizes, strict=True):
        part_shape = (*tensor.shape[:place], size, *tensor.shape[place + 1 :])
        made.append(values.builder.tensor(replace(tensor, name=name, shape=part_shape, data=None)))
        values.hold(name, order, made[-1])
    op = Op.SPLIT if len({*sizes}) == 1 else Op.SPLIT_V
    values.builder.node(op, [number], made, Split(axis=place, sizes=sizes))


def _convert_slice(values: FloatValues, node: FileNode) -> None:
    """Convert a Slice in the order of axes that its input has."""
    order = values.order_of([node.source])
    attributes = _options(values, node).slice(order)
    number = values.tensor_in_order(node.source, order)
    output = values.add(Op.STRIDED_SLICE, [number], attributes, name=node.output)
    values.hold(node.output, order, output)


def _convert_gather(values: FloatValues, node: FileNode) -> None:
    """Convert a Gather of constant indices along one axis."""
    if not values.is_constant(node.inputs[1]):
        raise Unsupported("has indices that are computed from floats")
    order, shape = values.order_of([node.source]), values.shape(node.source)
    axis = int(node.options.get("axis", 0)) % len(shape)
    given = values.constant(node.inputs[1])
    if not given.size:
        raise Unsupported("gathers nothing")
    places = values.builder.constant((given.reshape(-1) % shape[axis]).astype(np.int32))
    operands = [values.tensor_in_order(node.source, order), places]
    number = values.add(Op.GATHER, operands, Axis(axis=order.index(axis)))
    if given.ndim != 1:
        wanted = (*shape[:axis], *given.shape, *shape[axis + 1 :])
        gathered = (*shape[:axis], given.size, *shape[axis + 1 :])
        number, order = _replace_axis(values, number, order, (gathered, wanted), axis)
    values.hold(node.output, order, number)


def _replace_axis(
    values: FloatValues,
    number: int,
    order: Order,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    axis: int,
) -> tuple[int, Order]:
    """Replace one axis by several or none; return the new tensor's number and order of axes.

    Returns the number of the new tensor, and the order of its axes. `shapes` are the shapes
    before and after in the file's order; `axis` is the axis in that order.
    """
    before, after = shapes
    added = len(after) - len(before)
    places = [
        each
        for at in order
        for each in (range(axis, axis + 1 + added) if at == axis else [at + added * (at > axis)])
    ]
    target = tuple(after[at] for at in places)
    return values.add(Op.RESHAPE, [number], shape=target), tuple(places)


def _convert_pad(values: FloatValues, node: FileNode) -> None:
    """Convert a Pad: with a constant, or with copies of the edges."""
    order, options = values.order_of([node.source]), _options(values, node)
    if options.copies_edges:
        number = values.tensor_in_order(node.source, order)
        for axis, before, after in options.edges(order):
            number = extend(values, number, axis, before, after)
        values.hold(node.output, order, number)
        return
    attributes = options.pad(order)
    number = values.tensor_in_order(node.source, order)
    value = float(attributes.value or 0)
    op, attributes = Op.PADV2 if value else Op.PAD, replace(attributes, value=value or None)
    values.hold(node.output, order, values.add(op, [number], attributes, name=node.output))


def _convert_resize(values: FloatValues, node: FileNode) -> None:
    """Convert a Resize: to a resize of images, an interpolation, or a step for each axis."""
    options = _options(values, node)
    try:
        kind = options.interpolation() if options.interpolates else options.resize()
    except Unsupported:
        resize_axes(values, node, options)
        return
    number = values.channels_last(node.source)
    if options.interpolates:
        output = interpolate(values, number, kind, node.output)
    else:
        output = values.add(Op.RESIZE_NEAREST_NEIGHBOR, [number], kind, name=node.output)
    values.hold(node.output, LAST, output)


def _convert_block_exchange(values: FloatValues, node: FileNode) -> None:
    """Convert DepthToSpace and SpaceToDepth, which exchange channels and positions of an image."""
    number = values.channels_last(node.source)
    steps, shape = _options(values, node).exchange_blocks()
    for step in steps:
        number = values.add(Op.RESHAPE, [number], shape=step)
        number = values.add(Op.TRANSPOSE, [number], Transpose(permutation=(0, 2, 1, 3)))
    values.hold(node.output, LAST, values.add(Op.RESHAPE, [number], shape=shape, name=node.output))


#: Converters by operator name.
MOVES: dict[str, Callable[[FloatValues, FileNode], None]] = {
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _convert_reshape),
    "Concat": _convert_concatenation,
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _convert_block_exchange),
    "Expand": _convert_expand,
    "Gather": _convert_gather,
    "Pad": _convert_pad,
    "Resize": _convert_resize,
    "Slice": _convert_slice,
    "Split": _convert_split,
    "Transpose": _convert_transpose,
    "Upsample": _convert_resize,
}
