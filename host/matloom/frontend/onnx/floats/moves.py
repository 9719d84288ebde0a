"""Operators that move elements."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.floats.node import FileNode
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.values import LAST, in_file_order, kept_axes
from matloom.ir.attributes import Axis, Pad, Resize, Slice, Split
from matloom.ir.graph import Op

__all__ = ["MOVES"]

#: First version of the operator set in which Resize has a choice of grids.
_GRIDS = 11


def _list(given: object, what: str) -> list[int]:
    if not isinstance(given, list | tuple | np.ndarray):
        raise Unsupported(f"has {what} that are not known")
    return [int(value) for value in given]


def _target(values: FloatValues, node: FileNode) -> tuple[int, ...]:
    """Return the output shape of Reshape, Flatten, Squeeze or Unsqueeze."""
    shape = values.shape(node.source)
    if node.op == "Flatten":
        axis = int(node.options.get("axis", 1))
        axis += len(shape) if axis < 0 else 0
        return math.prod(shape[:axis]), math.prod(shape[axis:])
    if node.op == "Reshape":
        wanted = _list(values.option(node, "shape", 1), "sizes")
        if not node.options.get("allowzero", 0):
            wanted = [shape[at] if size == 0 else size for at, size in enumerate(wanted)]
        known = -math.prod(wanted) if -1 in wanted else 1
        return tuple(math.prod(shape) // known if size == -1 else size for size in wanted)
    given = values.option(node, "axes", 1)
    if node.op == "Squeeze":
        axes = {axis % len(shape) for axis in _list(given, "axes")} if given is not None else None
        return tuple(
            size
            for axis, size in enumerate(shape)
            if (axis not in axes if axes is not None else size != 1)
        )
    inserted = _list(given, "axes")
    rank = len(shape) + len(inserted)
    places, rest = {axis % rank for axis in inserted}, iter(shape)
    return tuple(1 if axis in places else next(rest) for axis in range(rank))


def _reshape(values: FloatValues, node: FileNode) -> None:
    shape, wanted = values.shape(node.source), _target(values, node)
    held = values.held[node.source]
    plain = kept_axes(in_file_order(len(shape)), shape)
    for order, number in held.items():
        if kept_axes(order, shape) == plain:
            made = values.add(Op.RESHAPE, [number], shape=wanted, name=node.output)
            values.hold(node.output, in_file_order(len(wanted)), made)
            return
    if len(shape) == len(LAST):
        values.flattened[node.output] = node.source
    number = values.plain(node.source)
    made = values.add(Op.RESHAPE, [number], shape=wanted, name=node.output)
    values.hold(node.output, in_file_order(len(wanted)), made)


def _transpose(values: FloatValues, node: FileNode) -> None:
    rank = len(values.shape(node.source))
    permutation = list(node.options.get("perm", list(reversed(range(rank)))))
    for order, number in list(values.held[node.source].items()):
        values.hold(node.output, tuple(permutation.index(axis) for axis in order), number)


def _concatenation(values: FloatValues, node: FileNode) -> None:
    computed = [name for name in node.inputs if not values.is_constant(name)]
    order = values.order_of(computed)
    axis = int(node.options["axis"]) % len(order)
    operands = [values.ordered(name, order) for name in node.inputs]
    attributes = Axis(axis=order.index(axis))
    values.hold(
        node.output, order, values.add(Op.CONCATENATION, operands, attributes, name=node.output)
    )


def _split(values: FloatValues, node: FileNode) -> None:
    shape, order = values.shape(node.source), values.order_of([node.source])
    axis = int(node.options.get("axis", 0)) % len(shape)
    given = values.option(node, "split", 1)
    count = len(node.outputs)
    # Parts of equal size; the last may be shorter.
    part = -(-shape[axis] // count)
    sizes = [min(part, shape[axis] - at * part) for at in range(count)]
    sizes = sizes if given is None else _list(given, "sizes")
    number = values.ordered(node.source, order)
    place, tensor = order.index(axis), values.builder.tensors[number]
    made = []
    for name, size in zip(node.outputs, sizes, strict=True):
        part_shape = (*tensor.shape[:place], size, *tensor.shape[place + 1 :])
        made.append(values.builder.tensor(replace(tensor, name=name, shape=part_shape, data=None)))
        values.hold(name, order, made[-1])
    op = Op.SPLIT if len({*sizes}) == 1 else Op.SPLIT_V
    values.builder.node(op, [number], made, Split(axis=place, sizes=tuple(sizes)))


def _slice(values: FloatValues, node: FileNode) -> None:
    shape, order = values.shape(node.source), values.order_of([node.source])
    starts, ends = (
        _list(values.option(node, name, at), name) for name, at in (("starts", 1), ("ends", 2))
    )
    axes = values.option(node, "axes", 3)
    axes = list(range(len(starts))) if axes is None else _list(axes, "axes")
    steps = values.option(node, "steps", 4)
    steps = [1] * len(starts) if steps is None else _list(steps, "steps")
    begin, size, step = [0] * len(shape), list(shape), [1] * len(shape)
    for axis, start, end, stride in zip(axes, starts, ends, steps, strict=True):
        chosen = range(*slice(start, end, stride).indices(shape[axis]))
        begin[axis], size[axis], step[axis] = chosen.start, len(chosen), stride
    begin, size, step = ([each[axis] for axis in order] for each in (begin, size, step))
    attributes = Slice(begin=tuple(begin), size=tuple(size), step=tuple(step))
    number = values.ordered(node.source, order)
    made = values.add(Op.STRIDED_SLICE, [number], attributes, name=node.output)
    values.hold(node.output, order, made)


def _pad(values: FloatValues, node: FileNode) -> None:
    shape, order = values.shape(node.source), values.order_of([node.source])
    mode = node.options.get("mode", b"constant")
    if mode != b"constant" or node.input(3):
        raise Unsupported(f"pads in the mode {mode.decode()}, or some axes only")
    pads = _list(values.option(node, "pads", 1), "pads")
    value = values.option(node, "value", 2, 0.0)
    if not isinstance(value, int | float) or min(pads) < 0:
        raise Unsupported("has padding that is not known or below zero")
    attributes = Pad(
        before=tuple(pads[axis] for axis in order),
        after=tuple(pads[len(shape) + axis] for axis in order),
        value=float(value) if value else None,
    )
    op = Op.PADV2 if value else Op.PAD
    number = values.ordered(node.source, order)
    values.hold(node.output, order, values.add(op, [number], attributes, name=node.output))


def _resize(values: FloatValues, node: FileNode) -> None:
    """Convert Resize and Upsample by whole factors to the nearest neighbour.

    For these, the usual grids choose the same neighbours: those of RESIZE_NEAREST_NEIGHBOR.
    """
    grid = node.options.get("coordinate_transformation_mode", b"half_pixel")
    nearest = node.options.get("nearest_mode", b"round_prefer_floor")
    known = grid.endswith(b"half_pixel") and nearest.startswith(b"round")
    if node.opset >= _GRIDS and not known and (grid, nearest) != (b"asymmetric", b"floor"):
        raise Unsupported(f"has the grid {grid.decode()}, {nearest.decode()}")
    shape = values.shape(node.source)
    mode = node.options.get("mode", b"nearest")
    if mode != b"nearest" or len(shape) != len(LAST) or "axes" in node.options:
        raise Unsupported("interpolates between neighbours")
    sizes = values.option(node, "sizes", 3)
    scales = values.option(node, "scales", 1 if node.op == "Upsample" else 2)
    if sizes is None and not isinstance(scales, list):
        raise Unsupported("has sizes that are not known")
    if isinstance(scales, list) and scales:
        sizes = [int(size * scale) for size, scale in zip(shape, scales, strict=True)]
    wanted = _list(sizes, "sizes")
    if any(after % before for before, after in zip(shape, wanted, strict=True)):
        raise Unsupported("resizes by factors that are not whole")
    attributes = Resize(size=(wanted[2], wanted[3]), align_corners=False, half_pixel_centers=False)
    number = values.last(node.source)
    made = values.add(Op.RESIZE_NEAREST_NEIGHBOR, [number], attributes, name=node.output)
    values.hold(node.output, LAST, made)


#: By the operator's name.
MOVES: dict[str, Callable[[FloatValues, FileNode], None]] = {
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshape),
    "Concat": _concatenation,
    "Pad": _pad,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
    "Upsample": _resize,
}
