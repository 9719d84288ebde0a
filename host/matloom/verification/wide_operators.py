"""Draws random networks of one operator, each with one unusually large quantity."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

from matloom.ir.graph import Graph, Op, Tensor
from matloom.ir.work import macs
from matloom.verification.random_operators import KINDS, WEIGHTED, RandomOperators

Item = TypeVar("Item")

#: Operators with the most quantities that can be wide; some are listed twice for a larger share.
WINDOWED = (
    *(Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.AVERAGE_POOL_2D, Op.MAX_POOL_2D),
    *(Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED),
)

#: Quantities that can be wide for any operator.
_QUANTITIES = ("length", "channels", "zero")
#: Further quantities that can be wide, by kind of operator.
_EXTRA_QUANTITIES = {
    "convolution": ("kernel", "strides", "dilations", "scale", "bias"),
    "dense": ("scale", "bias"),
    "pooling": ("kernel", "strides"),
    "transposed_convolution": ("scale", "bias"),
}

#: Lengths and numbers of channels: around multiples of 64 and the limit of a field of 8 bits, up to
#: the last value of a field of 12 bits.
_LENGTHS = (63, 64, 65, 127, 200, 255, 256, 257, 511, 600, 1000, 1024, 2000, 4094, 4095)

#: Sides of kernels, strides and dilations, up to the last value of a field of 8 bits.
_STEPS = (6, 7, 8, 15, 16, 33, 64, 127, 254, 255)

#: Maximum number of elements of a tensor, and maximum length of each axis but the last.
_ELEMENTS, _ROWS = 8_000, 257

#: Maximum multiply-accumulates of a layer. One draw in a hundred has more, up to 87 million; such
#: layers need more memory than a simulated chip has, and minutes to run, so they are drawn again.
_MAX_MACS = 1_000_000


class WideOperators(RandomOperators):
    """Draws networks like `RandomOperators`, for the engine, with one unusually large quantity.

    Wide axis lengths, channels, kernels, strides and dilations reach the limits of their fields,
    within a million multiply-accumulates. Wide output scales lead to all kinds of shifts, wide
    biases use 32 bits, and wide zero points are the first or last value.
    """

    def __init__(self, seed: int | Sequence[int], dtype: str = "int8") -> None:
        super().__init__(seed, dtype, engine=True)
        self._wide, self._left = "", 0

    def make(self, op: Op) -> Graph:
        """Return a network of one operator, which `verify` accepts."""
        graph = self._draw(op)
        while macs(graph, graph.nodes[0]) > _MAX_MACS:
            graph = self._draw(op)
        return graph

    def _draw(self, op: Op) -> Graph:
        """Choose the quantity that is large in this network, and draw the network."""
        self._wide = self._any_of((*_QUANTITIES, *_EXTRA_QUANTITIES.get(KINDS[op], ())))
        # Index of the long one among the drawn lengths.
        self._left = self._integer(0, 3)
        return super().make(op)

    def _is_wide(self, quantity: str) -> bool:
        """Return whether this draw of `quantity` is the wide one; True at most once per network."""
        if self._wide != quantity:
            return False
        self._left -= 1
        return self._left == -1

    def _any_of(self, values: Sequence[Item]) -> Item:
        """Return one of the values at random."""
        return values[self._integer(0, len(values) - 1)]

    def _length(self, most: int) -> int:
        """Return a random length of an axis, up to 4 and `most`, or a large one."""
        return self._any_of(_LENGTHS) if self._is_wide("length") else self._integer(1, min(most, 4))

    def _channels(self, most: int) -> int:
        """Return a random number of channels, up to 9, or a large one."""
        return self._any_of(_LENGTHS) if self._is_wide("channels") else self._integer(1, 9)

    def _shape(self, rank: int | None = None, longest: int = 6) -> tuple[int, ...]:
        """Return a random shape with at most one long axis, and a bounded number of elements."""
        *rows, last = super()._shape(rank, longest)
        shape = [*(min(each, _ROWS) for each in rows), last]
        while prod(shape) > _ELEMENTS:
            # The long axis keeps its length.
            axis = shape.index(min(each for each in shape if each > 1))
            shape[axis] //= 2
        return tuple(shape)

    def _matrix(self, rows: int) -> tuple[int, int]:
        """Return a random matrix shape for an operator that works on any shape."""
        return self._length(rows), self._length(50)

    def _pair_of(self, quantity: str, most: int) -> tuple[int, int]:
        """Return two random integers up to 3 and `most`; one is large if `quantity` is wide."""
        pair = self._pair(1, min(most, 3))
        if self._wide != quantity:
            return pair
        long = self._any_of(_STEPS)
        return (long, pair[1]) if self._integer(0, 1) else (pair[0], long)

    def _kernel(self, most: int) -> tuple[int, int]:
        """Return a random kernel height and width up to 3 and `most`, one of them perhaps large."""
        return self._pair_of("kernel", most)

    def _strides(self) -> tuple[int, int]:
        """Return random strides, one of them perhaps large."""
        return self._pair_of("strides", 3)

    def _dilations(self) -> tuple[int, int]:
        """Return random dilations, one of them perhaps large."""
        return self._pair_of("dilations", 2)

    def _bias_reach(self) -> int:
        """Return a random bound for the magnitude of a bias, perhaps the largest of 32 bits."""
        return 2**31 - 1 if self._wide == "bias" else super()._bias_reach()

    def _tensor(
        self, name: str, shape: tuple[int, ...], dtype: str = "", scale: float | None = None
    ) -> Tensor:
        """Return the declaration of a tensor, perhaps with an extreme zero point."""
        tensor = super()._tensor(name, shape, dtype, scale)
        if self._wide != "zero" or tensor.dtype != "int8" or tensor.quantisation is None:
            return tensor
        zero = (self._any_of((-128, 127)),)
        return replace(tensor, quantisation=replace(tensor.quantisation, zero_point=zero))

    def _output(self, op: Op, source: Tensor, shape: tuple[int, ...], place: int) -> Tensor:
        """Return the declaration of an operator's output, perhaps with an extreme scale."""
        tensor = super()._output(op, source, shape, place)
        if self._wide != "scale" or op not in WEIGHTED or tensor.quantisation is None:
            return tensor
        scale = (tensor.scale * 2.0 ** self._integer(-20, 20),)
        return replace(tensor, quantisation=replace(tensor.quantisation, scale=scale))
