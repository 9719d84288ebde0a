"""Stages: operators in the terms of the engine, before they are cut into tiles."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from matloom.arch.config import Config
from matloom.arch.modes import NARROW_MODES
from matloom.select.layout.base import Grid, InputLayout, OutputLayout
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.loop_nest import Walk
from matloom.select.operand import Operand

__all__ = ["ArrayStage", "OutputRegion", "Posts", "Stage", "VectorStage"]

#: For each POST the number of its stage's input (None where it reads accumulators), its fields.
Posts = tuple[tuple[int | None, dict[str, int]], ...]


@dataclass(frozen=True, kw_only=True)
class OutputRegion:
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
    weights:
        What the input is multiplied with. With `weights_fixed` all blocks are the same tile.
    params:
        Parameter blocks, uint8 (output blocks, bytes).
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
    regions: tuple[OutputRegion, ...]
    weights: Operand
    params: np.ndarray = field(repr=False)
    macs: int
    mode: str = "i8xi8"
    element_bytes: int = 1
    table: np.ndarray | None = field(default=None, repr=False)
    addend_post: dict[str, int] | None = None

    #: Whether it computes elements of flat tensors, whatever their shapes.
    elementwise: ClassVar[bool] = False

    #: Whether it does nothing but look up.
    is_lookup_only: ClassVar[bool] = False

    #: Inputs that are read again and again.
    repeated_inputs: ClassVar[frozenset[str]] = frozenset()

    @property
    def steps(self) -> int:
        """Reduction steps of an output block."""
        return self.loop_nest.steps

    @property
    def has_costly_tiles(self) -> bool:
        """Whether each tile takes some cycles more.

        Windows stream rows more than they make; after a single step, results take as long as the
        arithmetic, and POST some cycles more.
        """
        return self.loop_nest.slides or self.steps == 1

    @property
    def streamed_inputs(self) -> tuple[str, ...]:
        """The input that tiles stream through the array, not what is added to their sums."""
        return self.inputs[:1]

    @property
    def loads_weights(self) -> bool:
        """Whether each output block has weights of its own."""
        return not self.loop_nest.weights_fixed

    @property
    def pools(self) -> bool:
        """Whether one weight tile serves all taps and channels, as in pooling and copies."""
        return self.loop_nest.weights_fixed

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights."""
        return self.weights.nbytes

    @property
    def weight_tile_bytes(self) -> int:
        """Bytes of a weight tile."""
        return self.weights.tile_bytes

    @property
    def weight_block_bytes(self) -> int:
        """Bytes of the weights of an output block."""
        return self.weights.block_bytes

    @property
    def block_bytes(self) -> int:
        """Bytes of the weights and parameters of an output block."""
        return self.weight_block_bytes + int(self.params.shape[1])

    @property
    def has_params(self) -> bool:
        """Whether there are parameters to load."""
        return self.params.size > 0

    @property
    def used_modes(self) -> frozenset[str]:
        """Number formats in which it multiplies."""
        return frozenset({self.mode}) if self.macs else frozenset()

    @property
    def addend(self) -> str | None:
        """The tensor that is added to the sums, if there is one."""
        return None if self.addend_post is None else self.inputs[1]

    @property
    def grid(self) -> Grid:
        """Extent of its outputs: images, rows, positions, blocks."""
        return self.output_layout.grid

    @property
    def makes_dense_bytes(self) -> bool:
        """Whether POST writes one byte of each sum, to a dense tensor, and adds nothing to it."""
        layout = self.output_layout
        single = layout.limbs == self.accumulators_per_block == self.element_bytes == 1
        return layout.contiguous and single and self.addend_post is None

    @property
    def text(self) -> str:
        """Use of the array, for people."""
        grid = self.grid
        text = (
            f"{type(self.loop_nest).__name__} of {self.steps} steps, {grid.blocks} output blocks, "
            f"{grid.images} x {grid.rows} x {grid.width} x {grid.position_bytes} bytes, "
            f"{self.mode}, {self.weight_bytes} bytes of weights"
        )
        for verb, layout in (("makes", self.output_layout), ("reads", self.input_layout)):
            text += f", {verb} {layout.text}" if layout.text else ""
        return text

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
        For each POST the number of its input (None if it reads accumulators) and its fields.
    period, repeated:
        Inputs, by number, that repeat every `period` bytes of the output; 0 and none if no
        input repeats.
    table:
        As that of an `ArrayStage`.
    is_lookup_only:
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
    is_lookup_only: bool = False

    elementwise: ClassVar[bool] = True

    #: It has no weights, no parameters and no products.
    loads_weights: ClassVar[bool] = False
    pools: ClassVar[bool] = False
    depthwise: ClassVar[bool] = False
    has_params: ClassVar[bool] = False
    has_costly_tiles: ClassVar[bool] = False
    steps: ClassVar[int] = 0
    weight_bytes: ClassVar[int] = 0
    weight_tile_bytes: ClassVar[int] = 0
    weight_block_bytes: ClassVar[int] = 0
    block_bytes: ClassVar[int] = 0
    used_modes: ClassVar[frozenset[str]] = frozenset()
    addend: ClassVar[str | None] = None

    @property
    def text(self) -> str:
        """Use of post-processing, for people."""
        return f"{len(self.posts)} POSTs over {self.size} bytes"

    def entries(self, config: Config) -> int:
        """Return how many accumulator entries are in a half."""
        return config.acc_entries // 2

    @property
    def repeated_inputs(self) -> frozenset[str]:
        """Inputs that are read again and again."""
        return frozenset(self.inputs[at] for at in self.repeated)

    @property
    def streamed_inputs(self) -> tuple[str, ...]:
        """All inputs."""
        return self.inputs

    @property
    def grid(self) -> Grid:
        """Its output, as one position of one block."""
        return self.output_layout.grid

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
