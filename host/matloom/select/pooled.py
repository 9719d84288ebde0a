"""MAX_POOL_2D of 2 x 2 blocks computed by POST of the layer before it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from matloom.ir.attributes import Activation, Padding, Pool2D
from matloom.ir.graph import Graph, Node, Op
from matloom.select.lookup import LOOKUPS
from matloom.select.loop_nest import ExecLoops, Fields, Rows

#: Rows and positions of the block of sums that makes an output.
SIDE = 2


def pools_blocks(node: Node) -> bool:
    """Return whether an operator is a MAX_POOL_2D of 2 x 2 blocks."""
    if node.op is not Op.MAX_POOL_2D:
        return False
    attributes = node.attributes_as(Pool2D)
    blocks = attributes.window == attributes.stride == (SIDE, SIDE)
    plain = attributes.activation is Activation.NONE
    return blocks and plain and attributes.padding == Padding()


def is_pooled(graph: Graph, tensor: int) -> bool:
    """Return whether only a MAX_POOL_2D of 2 x 2 blocks reads a tensor, possibly after lookups."""
    readers = graph.consumers[tensor]
    if len(readers) != 1 or tensor in graph.leaving:
        return False
    node = graph.nodes[readers[0]]
    return pools_blocks(node) or (node.op in LOOKUPS and is_pooled(graph, node.outputs[0]))


@dataclass(frozen=True, kw_only=True)
class PooledLoops:
    """Loops of EXEC for a layer whose POST pools: maxima of `SIDE` x `SIDE` outputs of `inner`."""

    inner: ExecLoops

    kernel_row_step: ClassVar[int] = 1
    sums_per_output: ClassVar[int] = SIDE * SIDE

    @property
    def steps(self) -> int:
        """Number of reduction steps (uses of a weight tile) for a block of output channels."""
        return self.inner.steps

    @property
    def kernel_rows(self) -> int:
        """Number of input rows that an output row reads."""
        inner = self.inner
        return (inner.kernel_rows - 1) * inner.kernel_row_step + inner.y_step * (SIDE - 1) + 1

    @property
    def y_step(self) -> int:
        """Distance in input rows between output rows."""
        return SIDE * self.inner.y_step

    @property
    def oc_step(self) -> int:
        """Distance in bytes between the inputs of two output blocks; 0 if all read the same.

        A block is as many output channels as the array has columns.
        """
        return self.inner.oc_step

    @property
    def weights_fixed(self) -> bool:
        """Whether one weight tile serves the whole reduction and all blocks of channels."""
        return self.inner.weights_fixed

    @property
    def slides(self) -> bool:
        """Whether EXEC slides a window; a tile then streams more rows than it has outputs."""
        return self.inner.slides

    @property
    def is_long(self) -> bool:
        """Whether the kernel has a single row, with more taps than one EXEC can count."""
        return self.inner.is_long

    def vectors_per_step(self, height: int, width: int) -> int:
        """Return about how many vectors are streamed per weight tile, for outputs of this size.

        The outputs are `height` rows of `width` positions.
        """
        return self.inner.vectors_per_step(SIDE * height, SIDE * width)

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> dict[str, int]:
        """Return the fields of the EXEC that makes `rows` and `columns` of outputs (half open).

        `block` is the first output block.
        """
        return self.inner.fields(_before_pooling(rows), _before_pooling(columns), block)

    def executes(self, fields: Fields, rows: Rows, block_bytes: int) -> Iterator[Fields]:
        """Yield the fields of the EXECs of a tile."""
        return self.inner.executes(fields, _before_pooling(rows), block_bytes)


def _before_pooling(ends: tuple[int, int]) -> tuple[int, int]:
    """Return the range of outputs before pooling for a range of pooled ones (half open)."""
    return SIDE * ends[0], SIDE * ends[1]
