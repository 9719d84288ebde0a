"""Parameters of ONNX operators that move elements: Split, Slice, Pad, Gather, Resize and others."""

import math
from collections.abc import Callable

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.ir.attributes import Attributes, Pad, Pool2D, Resize, Slice
from matloom.ir.graph import Array, Op
from matloom.ir.shapes import IMAGE_RANK

#: Maximum number of inputs of a CONCATENATION in TensorFlow Lite Micro.
MOST_JOINED = 10

#: First version of the operator set in which Resize has `coordinate_transformation_mode`, the grid.
_GRIDS_VERSION = 11

Order = tuple[int, ...]


def integers(values: object, subject: str) -> list[int]:
    """Return `values` as a list of integers.

    Raises
    ------
    Unsupported
        They are not a sequence, because they are not known; `subject` names them in the message.
    """
    if not isinstance(values, list | tuple | np.ndarray):
        raise Unsupported(f"has {subject} that are not known")
    return [int(value) for value in values]


class MoveOptions:
    """Options of an operator that moves elements, such as Slice, read and checked.

    `shape` is that of the operator's first input in the file. `constant` returns the value of a
    constant by its name. It raises `Unsupported` for a computed value, and so does each method if a
    parameter is computed, or has a value that the graph cannot express.
    """

    def __init__(
        self, node: FileNode, shape: tuple[int, ...], constant: Callable[[str], Array]
    ) -> None:
        self._node, self._shape, self._constant = node, shape, constant

    def _parameter(self, name: str, place: int, default: object = None) -> object:
        """Return an option: an attribute in old versions, the input at `place` in new ones."""
        return self._node.parameter(name, place, self._constant, default)

    def split(self) -> tuple[int, tuple[int, ...]]:
        """Return the axis of a Split, and the size of each part along it."""
        axis = int(self._node.options.get("axis", 0)) % len(self._shape)
        given, count = self._parameter("split", 1), len(self._node.outputs)
        if given is not None:
            return axis, tuple(integers(given, "sizes"))
        # Parts of equal size; the last may be shorter.
        part = -(-self._shape[axis] // count)
        return axis, tuple(min(part, self._shape[axis] - at * part) for at in range(count))

    def slice(self, order: Order) -> Slice:
        """Return the attributes of a Slice; the tensor's axes are in `order`."""
        starts, ends = (
            integers(self._parameter(name, at), name) for name, at in (("starts", 1), ("ends", 2))
        )
        axes = self._parameter("axes", 3)
        axes = list(range(len(starts))) if axes is None else integers(axes, "axes")
        steps = self._parameter("steps", 4)
        steps = [1] * len(starts) if steps is None else integers(steps, "steps")
        rank = len(self._shape)
        begin, size, step = [0] * rank, list(self._shape), [1] * rank
        for axis, start, end, stride in zip(axes, starts, ends, steps, strict=True):
            chosen = range(*slice(start, end, stride).indices(self._shape[axis]))
            begin[axis], size[axis], step[axis] = chosen.start, len(chosen), stride
        begin, size, step = ([each[axis] for axis in order] for each in (begin, size, step))
        return Slice(begin=tuple(begin), size=tuple(size), step=tuple(step))

    def pad(self, order: Order) -> Pad:
        """Return the attributes of a Pad with a constant; the tensor's axes are in `order`."""
        mode = self._node.options.get("mode", b"constant")
        if mode != b"constant" or self._node.input(3):
            raise Unsupported(f"pads in the mode {mode.decode()}, or some axes only")
        pads = integers(self._parameter("pads", 1), "pads")
        value = self._parameter("value", 2, 0)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if not isinstance(value, int | float) or min(pads) < 0:
            raise Unsupported("has padding that is not known or below zero")
        rank = len(self._shape)
        before, after = (tuple(pads[at + axis] for axis in order) for at in (0, rank))
        return Pad(before=before, after=after, value=value)

    @property
    def copies_edges(self) -> bool:
        """Whether a Pad copies elements of the tensor, instead of a constant."""
        return bool(self._node.options.get("mode", b"constant") in (b"edge", b"reflect"))

    def edges(self, order: Order) -> list[tuple[int, list[int], list[int]]]:
        """Return the elements that a Pad in mode `edge` or `reflect` copies along each padded axis.

        An item is the position of the axis in `order`, and the indices along it of the elements
        that are copied before the first one and after the last one.
        """
        if self._node.input(3):
            raise Unsupported("pads some axes only")
        pads, rank = integers(self._parameter("pads", 1), "pads"), len(self._shape)
        found = []
        for at, axis in enumerate(order):
            first, after, last = pads[axis], pads[axis + rank], self._shape[axis] - 1
            edge = self._node.options["mode"] == b"edge"
            if min(first, after) < 0 or not (edge or max(first, after) <= last):
                raise Unsupported(f"pads {last + 1} elements by {first} and {after}")
            if edge:
                sides = [0] * first, [last] * after
            else:
                sides = list(range(first, 0, -1)), list(range(last - 1, last - 1 - after, -1))
            if first or after:
                found.append((at, *sides))
        return found

    def gather(self) -> tuple[int, Array]:
        """Return the axis of a Gather, and the indices that it takes along it, none negative."""
        axis = int(self._node.options.get("axis", 0)) % len(self._shape)
        return axis, self._constant(self._node.inputs[1]) % self._shape[axis]

    def reduced_axes(self) -> tuple[set[int], bool]:
        """Return the axes of a reduction, and whether they stay, with a length of one.

        No axis is negative. A reduction that states no axes reduces all of them.
        """
        rank = len(self._shape)
        given = self._parameter("axes", 1)
        if not given and self._node.options.get("noop_with_empty_axes", 0):
            raise Unsupported("reduces no axis")
        axes = {axis % rank for axis in integers(given, "axes")} if given else {*range(rank)}
        return axes, bool(self._node.options.get("keepdims", 1))

    def exchange_blocks(self) -> tuple[list[tuple[int, int, int, int]], tuple[int, ...]]:
        """Return shapes in which to swap axes, and the result's, for DepthToSpace or SpaceToDepth.

        The result is a list of four-dimensional shapes, and the shape of the output with channels
        last. For each shape of the list, the tensor is reshaped to it, and its middle two axes are
        exchanged.
        """
        size, (images, depth, high, wide) = int(self._node.options["blocksize"]), self._shape
        channels_first = self._node.options.get("mode", b"DCR") == b"CRD"
        if self._node.op == "DepthToSpace":
            inner = depth // size**2
            steps = [(images * high * wide, inner, size**2, 1)] if channels_first else []
            steps.append((images * high, wide, size, size * inner))
            return steps, (images, high * size, wide * size, inner)
        high, wide = high // size, wide // size
        steps = [(images * high, size, wide, size * depth)]
        if channels_first:
            steps.append((images * high * wide, size**2, depth, 1))
        return steps, (images, high, wide, depth * size**2)

    def resize(self) -> Resize:
        """Return the attributes of a Resize or Upsample that repeats each element by whole factors.

        For whole factors, the usual grids choose the same neighbours as RESIZE_NEAREST_NEIGHBOR
        does.
        """
        grid, options = self._coordinate_mode, self._node.options
        nearest = options.get("nearest_mode", b"round_prefer_floor")
        known = grid.endswith(b"half_pixel") and nearest.startswith(b"round")
        if options.get("mode", b"nearest") != b"nearest":
            raise Unsupported("interpolates between neighbours")
        if self._has_sampling_modes and not known and (grid, nearest) != (b"asymmetric", b"floor"):
            raise Unsupported(f"has the grid {grid.decode()}, {nearest.decode()}")
        return self._whole_factors()

    @property
    def interpolates(self) -> bool:
        """Whether Resize or Upsample interpolates between neighbours."""
        return bool(self._node.options.get("mode", b"nearest") == b"linear")

    def interpolation(self) -> Resize:
        """Return the attributes of a Resize that interpolates, and enlarges by whole factors.

        The grid must be one of the half-pixel grids, as PyTorch uses by default.
        """
        if not (self._has_sampling_modes and self._coordinate_mode.endswith(b"half_pixel")):
            grid = self._coordinate_mode.decode() if self._has_sampling_modes else "asymmetric"
            raise Unsupported(f"interpolates on the grid {grid}, not half_pixel")
        if self._node.options.get("antialias", 0):
            raise Unsupported("interpolates with antialias")
        return self._whole_factors()

    def resized_axes(self) -> dict[int, float | int]:
        """Return the axes that Resize enlarges or shrinks, with their sizes or, as floats, scales.

        A file states either the sizes or the scales.
        """
        rank = len(self._shape)
        if self._coordinate_mode == b"tf_crop_and_resize" or self._node.op == "Upsample":
            raise Unsupported("resizes a part of its input, or by an old operator set")
        if self._node.options.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
            raise Unsupported("keeps the ratio of its axes")
        axes = [axis % rank for axis in self._node.options.get("axes", range(rank))]
        scales = self._parameter("scales", 2)
        if isinstance(scales, list) and scales:
            return {at: float(each) for at, each in zip(axes, scales, strict=True) if each != 1}
        sizes = integers(self._parameter("sizes", 3), "sizes")
        return {at: each for at, each in zip(axes, sizes, strict=True) if each != self._shape[at]}

    @property
    def _has_sampling_modes(self) -> bool:
        """Return whether the operator's version has a choice of sampling positions."""
        return self._node.opset >= _GRIDS_VERSION

    @property
    def _coordinate_mode(self) -> bytes:
        """Return the attribute that says which source position an output element samples."""
        return bytes(self._node.options.get("coordinate_transformation_mode", b"half_pixel"))

    def _whole_factors(self) -> Resize:
        """Return the size of an image whose height and width grow by whole factors."""
        shape = self._shape
        if len(shape) != IMAGE_RANK or "axes" in self._node.options:
            raise Unsupported("resizes other axes than those of an image")
        sizes = self._parameter("sizes", 3)
        scales = self._parameter("scales", 1 if self._node.op == "Upsample" else 2)
        if sizes is None and not isinstance(scales, list):
            raise Unsupported("has sizes that are not known")
        if isinstance(scales, list) and scales:
            sizes = [int(size * scale) for size, scale in zip(shape, scales, strict=True)]
        wanted = integers(sizes, "sizes")
        if any(after % before for before, after in zip(shape, wanted, strict=True)):
            raise Unsupported("resizes by factors that are not whole")
        if wanted[:2] != list(shape[:2]):
            raise Unsupported("resizes other axes than those of an image")
        return Resize(size=(wanted[2], wanted[3]), align_corners=False, half_pixel_centers=False)


def reduce_max_steps(
    shape: tuple[int, ...], order: Order, reduction: tuple[set[int], bool]
) -> tuple[Order, list[tuple[Op, tuple[int, ...], Attributes]], Order]:
    """Return operators that reduce a tensor to its maxima along some axes.

    Parameters
    ----------
    shape:
        Shape of the tensor, in the file's order of axes.
    order:
        The current order of its axes.
    reduction:
        The axes to reduce, and whether they stay, with a length of one.

    Returns
    -------
    tuple
        The order of axes in which the operators read the tensor, which differs from `order` if the
        reduced axes are not adjacent in `order`; each operator with the shape and attributes of its
        result; the order of axes of the last result.
    """
    axes, keep = reduction
    kept = [axis for axis in order if axis not in axes]
    places = sorted(order.index(axis) for axis in axes)
    if places != list(range(places[0], places[-1] + 1)):
        kept.sort()
        order = (*kept, *sorted(axes))
        places = list(range(len(kept), len(order)))
    sizes = [shape[axis] for axis in order]
    outer, inner = math.prod(sizes[: places[0]]), math.prod(sizes[places[-1] + 1 :])
    *others, last = sizes[places[0] : places[-1] + 1]
    window = math.prod(others), last
    result, made = order, tuple(1 if axis in axes else shape[axis] for axis in order)
    if not keep:
        result = tuple(sorted(kept).index(axis) for axis in kept)
        made = tuple(shape[axis] for axis in kept)
    return (
        order,
        [
            (Op.RESHAPE, (outer, *window, inner), Attributes()),
            (Op.MAX_POOL_2D, (outer, 1, 1, inner), Pool2D(window=window, stride=window)),
            (Op.RESHAPE, made, Attributes()),
        ],
        result,
    )
