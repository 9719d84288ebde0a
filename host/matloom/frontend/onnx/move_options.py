"""Parameters of ONNX operators that move elements: parts, padding, sizes."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.ir.attributes import Attributes, Pad, Pool2D, Resize, Slice
from matloom.ir.graph import Array, Op
from matloom.ir.shapes import IMAGE_RANK

#: Inputs of a CONCATENATION that TensorFlow Lite Micro takes.
MOST_JOINED = 10

#: First version of the operator set in which Resize has a choice of grids.
_GRIDS_VERSION = 11

Order = tuple[int, ...]


def integers(values: object, subject: str) -> list[int]:
    """Return a list of integers; raise `Unsupported` if it is not known."""
    if not isinstance(values, list | tuple | np.ndarray):
        raise Unsupported(f"has {subject} that are not known")
    return [int(value) for value in values]


def runs(places: Sequence[int]) -> Iterator[range]:
    """Yield indices in order, as the longest possible ranges."""
    first = 0
    while first < len(places):
        step = places[first + 1] - places[first] if first + 1 < len(places) else 1
        last = first
        while step and last + 1 < len(places) and places[last + 1] - places[last] == step:
            last += 1
        step = step or 1
        yield range(places[first], places[last] + (step // abs(step)), step)
        first = last + 1


class MoveOptions:
    """The parameters of an operator.

    `shape` is that of its first input in the file; `constant` returns a known value by its name,
    and raises `Unsupported` if it is computed. So do the methods.
    """

    def __init__(
        self, node: FileNode, shape: tuple[int, ...], constant: Callable[[str], Array]
    ) -> None:
        self._node, self._shape, self._constant = node, shape, constant

    def _parameter(self, name: str, place: int, default: object = None) -> object:
        return self._node.parameter(name, place, self._constant, default)

    def split(self) -> tuple[int, tuple[int, ...]]:
        """Return the axis of a Split, and the size of each part."""
        axis = int(self._node.options.get("axis", 0)) % len(self._shape)
        given, count = self._parameter("split", 1), len(self._node.outputs)
        if given is not None:
            return axis, tuple(integers(given, "sizes"))
        # Parts of equal size; the last may be shorter.
        part = -(-self._shape[axis] // count)
        return axis, tuple(min(part, self._shape[axis] - at * part) for at in range(count))

    def slice(self, order: Order) -> Slice:
        """Return the part that a Slice takes of a tensor with its axes in an order."""
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
        """Return the padding of a tensor with its axes in an order, and its value."""
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
        """Return the places along each padded axis of which a Pad has copies before and after.

        The axes are numbered as in `order`.
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
        """Return the axis of a Gather, and the places that it takes along that axis."""
        axis = int(self._node.options.get("axis", 0)) % len(self._shape)
        return axis, self._constant(self._node.inputs[1]) % self._shape[axis]

    def reduced_axes(self) -> tuple[set[int], bool]:
        """Return the axes of a reduction, all if it states none, and whether it keeps them."""
        rank = len(self._shape)
        given = self._parameter("axes", 1)
        if not given and self._node.options.get("noop_with_empty_axes", 0):
            raise Unsupported("reduces no axis")
        axes = {axis % rank for axis in integers(given, "axes")} if given else {*range(rank)}
        return axes, bool(self._node.options.get("keepdims", 1))

    def exchange_blocks(self) -> tuple[list[tuple[int, int, int, int]], tuple[int, ...]]:
        """Return how DepthToSpace or SpaceToDepth exchange channels and positions of an image.

        A tensor with channels last takes each of the shapes in turn, whose middle two axes are
        exchanged, then the last shape.
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
        """Return the size of an image that Resize or Upsample repeats by whole factors.

        For these, the usual grids choose the same neighbours: those of RESIZE_NEAREST_NEIGHBOR.
        """
        grid, options = self._grid, self._node.options
        nearest = options.get("nearest_mode", b"round_prefer_floor")
        known = grid.endswith(b"half_pixel") and nearest.startswith(b"round")
        if options.get("mode", b"nearest") != b"nearest":
            raise Unsupported("interpolates between neighbours")
        if self._has_grid and not known and (grid, nearest) != (b"asymmetric", b"floor"):
            raise Unsupported(f"has the grid {grid.decode()}, {nearest.decode()}")
        return self._whole_factors()

    @property
    def interpolates(self) -> bool:
        """Whether Resize or Upsample interpolate between neighbours."""
        return bool(self._node.options.get("mode", b"nearest") == b"linear")

    def interpolation(self) -> Resize:
        """Return the size of an image that linear interpolation enlarges by whole factors.

        Positions are centres of pixels, as PyTorch has them by default.
        """
        if not (self._has_grid and self._grid.endswith(b"half_pixel")):
            grid = self._grid.decode() if self._has_grid else "asymmetric"
            raise Unsupported(f"interpolates on the grid {grid}, not half_pixel")
        if self._node.options.get("antialias", 0):
            raise Unsupported("interpolates with antialias")
        return self._whole_factors()

    def resized_axes(self) -> dict[int, float | int]:
        """Return the axes that Resize enlarges or shrinks, and their sizes or, as floats, scales.

        A file states either.
        """
        rank = len(self._shape)
        if self._grid == b"tf_crop_and_resize" or self._node.op == "Upsample":
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
    def _has_grid(self) -> bool:
        return self._node.opset >= _GRIDS_VERSION

    @property
    def _grid(self) -> bytes:
        return bytes(self._node.options.get("coordinate_transformation_mode", b"half_pixel"))

    def _whole_factors(self) -> Resize:
        """Return the size of an image enlarged by whole factors."""
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


def largest_steps(
    shape: tuple[int, ...], order: Order, reduction: tuple[set[int], bool]
) -> tuple[Order, list[tuple[Op, tuple[int, ...], Attributes]], Order]:
    """Return operators that reduce a tensor to its maxima along some axes.

    Parameters
    ----------
    shape:
        Of the tensor, in the file's order.
    order:
        An order in which its axes may be.
    reduction:
        The axes to reduce, and whether they stay, with a length of one.

    Returns
    -------
    tuple
        The order in which the operators read the tensor: another one if the axes do not follow each
        other in `order`; each operator with the shape of its result; the order of the last one.
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
