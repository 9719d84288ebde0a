"""Stages: operators in the terms of the engine, before they are cut into tiles."""

from dataclasses import dataclass, field

import numpy as np

from matloom.arch.config import Config
from matloom.arch.modes import NARROW_MODES
from matloom.select.row_bands import Bands
from matloom.select.row_folding import RowFolding
from matloom.select.sliding import SlidingWindow
from matloom.select.space_to_depth import Blocks, PolyphaseWindow

__all__ = [
    "ArrayStage",
    "LoopNest",
    "OutputPlacement",
    "Posts",
    "Region",
    "Stage",
    "VectorStage",
]

#: For each POST the number of its stage's input (None where it reads accumulators), its fields.
Posts = tuple[tuple[int | None, dict[str, int]], ...]


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


@dataclass(frozen=True, kw_only=True)
class OutputPlacement:
    """Where a stage's outputs lie in a tensor that several stages write (an output view).

    Members
    -------
    offset:
        The tensor's byte that comes first.
    x_step, row_step, image_step:
        Bytes from position to position, from row to row, from image to image.
    finished:
        Leading bytes of the tensor that are complete with this stage, 0 unless it is the last.
    line:
        For a stage that only copies the bytes of its input, in order: how many stay together,
        such lines being `row_step` apart. 0 for any other stage.
    """

    offset: int
    x_step: int
    row_step: int
    image_step: int
    finished: int
    line: int = 0


@dataclass(frozen=True, kw_only=True)
class ArrayStage:
    """An operator that streams through the array: convolution, dense layer, pooling.

    Members
    -------
    name, nodes:
        The operator, and the numbers of the graph's nodes that it stands for.
    inputs, output:
        Tensor names; one input, and a second that is added to the sums where `addend_post` says so.
    images, in_rows, in_row_bytes:
        The input: `images` planes of rows, dense.
    out_rows, width, position_bytes:
        The output: for each image `out_rows` rows of `width` positions of contiguous bytes.
    oc_blocks, block_bytes, tail:
        Output blocks of a position, bytes from block to block, bytes of the last block. Where
        `block_bytes` is less than the array's columns, each block needs instructions of its own.
        In a narrow mode a block is a pair of the array's.
    weights, params:
        uint8 arrays (oc_blocks, bytes): weight tiles in the order of the loops, and parameter
        blocks. With `weights_fixed` all rows of `weights` are the same.
    mode:
        The number format of its products, one of `MAC_MODES`.
    element_bytes:
        Of a number of the output.
    limbs:
        Byte limbs that are stored of each sum; each limb is a tensor, and they are contiguous.
    row_folding:
        How LOADs fold rows of the input into channels; None where they copy it.
    placement:
        Where the output lies in a larger tensor; None where it is a dense tensor of its own.
    blocks:
        The space-to-depth layout of the output, if it has one.
    bands:
        The layout of the output as two bands of rows, if it has that; no region has rows of both.
    table:
        uint8 (256,): the result for each unsigned byte, applied last; None for no table.
    addend_post:
        Fields of the POST that adds the second input, laid out as the output, to the sums of a
        tile before its results are made; None for none. Only where there is one limb, and the
        output is a dense tensor of its own.
    """

    name: str
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    output: str
    images: int
    in_rows: int
    in_row_bytes: int
    out_rows: int
    width: int
    position_bytes: int
    oc_blocks: int
    block_bytes: int
    tail: int
    loop_nest: LoopNest | SlidingWindow | PolyphaseWindow
    regions: tuple[Region, ...]
    weights: np.ndarray = field(repr=False)
    params: np.ndarray = field(repr=False)
    macs: int
    mode: str = "i8xi8"
    element_bytes: int = 1
    limbs: int = 1
    row_folding: RowFolding | None = None
    placement: OutputPlacement | None = None
    blocks: Blocks | None = None
    bands: Bands | None = None
    table: np.ndarray | None = field(default=None, repr=False)
    addend_post: dict[str, int] | None = None

    @property
    def addend(self) -> str | None:
        """The tensor that is added to the sums, if there is one."""
        return None if self.addend_post is None else self.inputs[1]

    @property
    def x_step(self) -> int:
        """Bytes of the output tensor from position to position."""
        return self.position_bytes if self.placement is None else self.placement.x_step

    @property
    def row_step(self) -> int:
        """Bytes of the output tensor from row to row."""
        return self.row_bytes if self.placement is None else self.placement.row_step

    def first_byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the byte of the output tensor at which a block of a position begins."""
        if self.placement is None:
            first = image * self.out_rows * self.row_bytes
        else:
            first = self.placement.offset + image * self.placement.image_step
        return first + row * self.row_step + x * self.x_step + block * self.block_bytes

    @property
    def halves(self) -> int:
        """Blocks of the array's columns that an output block stands for."""
        return 2 if self.mode in NARROW_MODES else 1

    def entries(self, config: Config) -> int:
        """Return how many accumulator entries, or pairs of them, are in a half."""
        return config.acc_entries // 2 // self.halves

    @property
    def depthwise(self) -> bool:
        """Whether each output block reads channels of its own, with weights of its own."""
        return self.loop_nest.oc_step > 0 and not self.loop_nest.weights_fixed

    @property
    def row_bytes(self) -> int:
        """Bytes of an output row."""
        return self.width * self.position_bytes

    @property
    def size(self) -> int:
        """Bytes of the output, of each limb."""
        return self.images * self.out_rows * self.row_bytes


@dataclass(frozen=True, kw_only=True)
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


Stage = ArrayStage | VectorStage
