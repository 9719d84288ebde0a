"""Parameters of ONNX operators that move elements: parts, padding, sizes."""

from collections.abc import Callable

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.ir.attributes import Pad, Resize, Slice
from matloom.ir.graph import Array
from matloom.ir.shapes import IMAGE_RANK

#: First version of the operator set in which Resize has a choice of grids.
_GRIDS = 11

Order = tuple[int, ...]


def integers(values: object, subject: str) -> list[int]:
    """Return a list of integers; raise `Unsupported` if it is not known."""
    if not isinstance(values, list | tuple | np.ndarray):
        raise Unsupported(f"has {subject} that are not known")
    return [int(value) for value in values]


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

    def resize(self) -> Resize:
        """Return the size of an image that Resize or Upsample repeats by whole factors.

        For these, the usual grids choose the same neighbours: those of RESIZE_NEAREST_NEIGHBOR.
        """
        options, shape = self._node.options, self._shape
        grid = options.get("coordinate_transformation_mode", b"half_pixel")
        nearest = options.get("nearest_mode", b"round_prefer_floor")
        known = grid.endswith(b"half_pixel") and nearest.startswith(b"round")
        if (
            self._node.opset >= _GRIDS
            and not known
            and (grid, nearest) != (b"asymmetric", b"floor")
        ):
            raise Unsupported(f"has the grid {grid.decode()}, {nearest.decode()}")
        mode = options.get("mode", b"nearest")
        if mode != b"nearest" or len(shape) != IMAGE_RANK or "axes" in options:
            raise Unsupported("interpolates between neighbours")
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
