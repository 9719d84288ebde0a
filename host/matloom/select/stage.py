"""Stages: operators in the terms of the engine, before they are cut into tiles."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from matloom.arch.config import Config
from matloom.arch.modes import NARROW_MODES
from matloom.select.layout.base import Grid, InputLayout, OutputLayout
from matloom.select.layout.dense import Dense, DenseInput

__all__ = ["ArrayStage", "LoopNest", "Posts", "Region", "Stage", "VectorStage", "Walk"]

#: For each POST the number of its stage's input (None where it reads accumulators), its fields.
Posts = tuple[tuple[int | None, dict[str, int]], ...]


class Walk(Protocol):
    """How EXEC walks over the input of a stage: taps one by one, or as a sliding window."""

    @property
    def steps(self) -> int:
        """Reduction steps of one output block."""

    @property
    def kernel_rows(self) -> int:
        """Input rows that an output row reads."""

    @property
    def kernel_row_step(self) -> int:
        """Input rows from one of them to the next."""

    @property
    def y_step(self) -> int:
        """Input rows from output row to output row."""

    @property
    def oc_step(self) -> int:
        """Bytes of the input from output block to output block; 0 where all read the same."""

    @property
    def weights_fixed(self) -> bool:
        """Whether one weight tile serves all steps and blocks."""

    def vectors(self, height: int, width: int) -> int:
        """Return about how many vectors a step streams for `height` rows of `width` outputs."""

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> dict[str, int]:
        """Return fields of EXEC for outputs (half open) from an output block on."""


@dataclass(frozen=True, kw_only=True)
class LoopNest:
    """How EXEC walks over the input: its fields that do not depend on the tile."""

    kernel_rows: int
    kernel_row_step: int
    kernel_cols: int
    kernel_col_step: int
    blocks: int
    oc_step: int
    x_step: int
    y_step: int
    pad_top: int
    pad_left_bytes: int
    pad_value: int
    maximum: bool = False
    weights_fixed: bool = False

    @property
    def steps(self) -> int:
        """Reduction steps of one output block."""
        return self.kernel_rows * self.kernel_cols * self.blocks

    def vectors(self, height: int, width: int) -> int:
        """Return the vectors that a step streams for `height` rows of `width` outputs."""
        return height * width

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> dict[str, int]:
        """Return fields of EXEC for outputs (half open) from an output block on.

        `first_row` counts from the first row of the image.
        """
        return {
            "maximum": int(self.maximum),
            "weights_fixed": int(self.weights_fixed),
            "first_row": rows[0] * self.y_step - self.pad_top,
            "first_byte": columns[0] * self.x_step - self.pad_left_bytes + block * self.oc_step,
            "pad_value": self.pad_value,
            "width": columns[1] - columns[0],
            "height": rows[1] - rows[0],
            "x_step": self.x_step,
            "y_step": self.y_step,
            "kernel_rows": self.kernel_rows,
            "kernel_row_step": self.kernel_row_step,
            "kernel_cols": self.kernel_cols,
            "kernel_col_step": self.kernel_col_step,
            "blocks": self.blocks,
            "oc_step": self.oc_step,
        }


@dataclass(frozen=True, kw_only=True)
class Region:
    """A rectangle of output positions whose POST has the same fields; ends are half open."""

    first_row: int
    end_row: int
    first_x: int
    end_x: int
    post: dict[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrayStage:
    """An operator that streams through the array: convolution, dense layer, pooling.

    Members
    -------
    name, nodes:
        The operator, and the numbers of the graph's nodes that it stands for.
    inputs, output:
        Tensor names; one input, and a second that is added to the sums where `addend_post` says so.
    input_layout, output_layout:
        How its input and its output lie on chip; `output_layout` has the grid of its outputs.
    loop_nest:
        How EXEC walks over the input.
    regions:
        Rectangles of the outputs, which cover each position once.
    weights, params:
        uint8 arrays (output blocks, bytes): weight tiles in the order of the loops, and parameter
        blocks. With `weights_fixed` all rows of `weights` are the same.
    mode:
        The number format of its products, one of `MAC_MODES`.
    element_bytes:
        Of a number of the output.
    table:
        uint8 (256,): the result for each unsigned byte, applied last; None for no table.
    addend_post:
        Fields of the POST that adds the second input, laid out as the output, to the sums of a
        tile before its results are made; None for none. Only where the output is dense and
        has one limb.
    """

    name: str
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    output: str
    input_layout: InputLayout
    output_layout: OutputLayout
    loop_nest: Walk
    regions: tuple[Region, ...]
    weights: np.ndarray = field(repr=False)
    params: np.ndarray = field(repr=False)
    macs: int
    mode: str = "i8xi8"
    element_bytes: int = 1
    table: np.ndarray | None = field(default=None, repr=False)
    addend_post: dict[str, int] | None = None

    @property
    def addend(self) -> str | None:
        """The tensor that is added to the sums, if there is one."""
        return None if self.addend_post is None else self.inputs[1]

    @property
    def grid(self) -> Grid:
        """Its outputs: images, rows, positions, blocks."""
        return self.output_layout.grid

    @property
    def makes_dense_bytes(self) -> bool:
        """Whether POST writes one byte of each sum, to a dense tensor, and adds nothing to it."""
        layout = self.output_layout
        single = layout.limbs == self.accumulators_per_block == self.element_bytes == 1
        return layout.contiguous and single and self.addend_post is None

    @property
    def accumulators_per_block(self) -> int:
        """Blocks of the array's columns that an output block stands for."""
        return 2 if self.mode in NARROW_MODES else 1

    def entries(self, config: Config) -> int:
        """Return how many accumulator entries, or pairs of them, are in a half."""
        return config.acc_entries // 2 // self.accumulators_per_block

    @property
    def depthwise(self) -> bool:
        """Whether each output block reads channels of its own, with weights of its own."""
        return self.loop_nest.oc_step > 0 and not self.loop_nest.weights_fixed

    @property
    def size(self) -> int:
        """Bytes of the output, of each limb."""
        return self.grid.size


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorStage:
    """An element-wise operator: some POSTs over the same flat range of bytes.

    Members
    -------
    size:
        Bytes of the output.
    element_bytes:
        Of a number of the output.
    input_ratio:
        Bytes of an input element by those of an output element.
    tile_unit:
        Bytes of which tiles are multiples: a row of the tensor, so that tiles match those of
        neighbouring stages.
    posts:
        For each POST the number of its input (None where it reads accumulators) and its fields.
    period, repeated:
        Inputs, by number, that repeat every `period` bytes of the output; 0 and none where no
        input repeats.
    table:
        As that of an `ArrayStage`.
    passes_on:
        The POST changes nothing before the table: the stage is a lookup alone.
    """

    name: str
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    output: str
    size: int
    tile_unit: int
    posts: Posts
    macs: int = 0
    element_bytes: int = 1
    input_ratio: int = 1
    period: int = 0
    repeated: tuple[int, ...] = ()
    table: np.ndarray | None = field(default=None, repr=False)
    passes_on: bool = False

    @property
    def input_layout(self) -> InputLayout:
        """Its inputs, as one row of bytes."""
        return DenseInput(rows=1, row_bytes=self.size * self.input_ratio)

    @property
    def output_layout(self) -> OutputLayout:
        """Its output, as one position."""
        size = self.size
        grid = Grid(images=1, rows=1, width=1, position_bytes=size, block_bytes=size)
        return Dense(grid=grid)


Stage = ArrayStage | VectorStage
