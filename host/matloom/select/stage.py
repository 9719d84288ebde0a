"""Stages: operators as the engine runs them, before they are cut into tiles."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Destination
from matloom.arch.modes import NARROW_MODES
from matloom.select.layout.base import Grid, InputLayout, OutputLayout
from matloom.select.layout.dense import Dense
from matloom.select.loop_nest import ExecLoops
from matloom.select.operand import ComputedWeights, Operand
from matloom.select.output_region import OutputRegion
from matloom.select.post_input import PostInput, SharedSums
from matloom.select.vector_stage import Posts, VectorStage

__all__ = ["ArrayStage", "OutputRegion", "Posts", "Stage", "VectorStage"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrayStage:
    """An operator that streams through the array: convolution, dense layer, pooling.

    Members
    -------
    name, nodes:
        Name of the operator, and the indices in the model file of the nodes that it implements.
    inputs, output:
        Tensor names: one input, and a second one if weights are computed or POST combines it with
        sums or results.
    input_layout, output_layout:
        Layouts of its input and its output on chip; `output_layout` contains the grid of outputs.
    loop_nest:
        Loops of EXEC over the input.
    regions:
        Rectangles that cover each output position once.
    weights:
        Second operand of the products. With `weights_fixed`, all blocks share one tile.
    params:
        Parameter blocks, uint8 (output blocks, bytes).
    mode:
        Number format of the products, one of `MAC_MODES`.
    element_bytes:
        Size in bytes of an output element.
    table:
        Lookup table applied last, uint8 (256,), indexed by the unsigned byte; or tables by channel,
        uint8 (blocks, columns, 256); None for no table.
    post_input:
        The use of a tensor that POST combines with sums or results: the second input, or the only
        one. None if POST reads no tensor.
    shared_sums:
        Whether it continues the sums of an earlier stage, or leaves its sums to a later one.
    """

    name: str
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    output: str
    input_layout: InputLayout
    output_layout: OutputLayout
    loop_nest: ExecLoops
    regions: tuple[OutputRegion, ...]
    weights: Operand
    params: np.ndarray = field(repr=False)
    macs: int
    mode: str = "i8xi8"
    element_bytes: int = 1
    table: np.ndarray | None = field(default=None, repr=False)
    post_input: PostInput | None = None
    shared_sums: SharedSums = SharedSums.NONE

    #: Properties of `VectorStage`, for a stage that is not element-wise.
    is_elementwise = is_lookup_only = is_softmax = reads_parts = False
    vector = narrow = None

    #: Inputs that repeat, and other inputs of which tiles read uneven parts: none.
    repeated_inputs: ClassVar[frozenset[str]] = frozenset()
    uneven_inputs: ClassVar[frozenset[str]] = frozenset()

    @property
    def array(self) -> "ArrayStage":
        """The stage itself, because it streams through the array."""
        return self

    def with_parts(self, parts: Mapping[str, tuple[str, int]]) -> "ArrayStage":
        """Return the stage unchanged, because it reads whole tensors, not parts of larger ones."""
        return self

    @property
    def steps(self) -> int:
        """Number of reduction steps of an output block."""
        return self.loop_nest.steps

    @property
    def sums_per_output(self) -> int:
        """Number of sums from which POST makes an output: 1, or 4 for their maximum."""
        return self.loop_nest.sums_per_output

    @property
    def has_costly_tiles(self) -> bool:
        """Whether each tile costs some extra cycles.

        Windows stream more rows than they have outputs. In a stage of a single step, results take
        as long as sums.
        """
        return self.loop_nest.slides or self.steps == 1

    @property
    def reads_row_by_row(self) -> bool:
        """Whether each output row reads only the input row with the same index."""
        nest, layout = self.loop_nest, self.input_layout
        dense = layout.source is None and not layout.plane_bytes
        single = nest.kernel_rows == nest.y_step == 1
        constant = not nest.weights_fixed and self.computed is None
        return single and dense and constant and layout.rows == self.grid.rows

    def reads_rows_of(self, producer: "Stage") -> bool:
        """Return whether the rows of this stage's input are the rows that `producer` makes.

        A dense layer, for example, makes one row of a tensor that its reader may cut into many.
        """
        source, made = self.input_layout, producer.grid
        same = (made.rows, made.row_bytes) == (source.rows, source.row_bytes)
        return same and self.inputs[0] == producer.output

    @property
    def streamed_inputs(self) -> tuple[str, ...]:
        """The input that tiles stream through the array; not a tensor that POST reads."""
        return self.inputs[:1]

    @property
    def loads_weights(self) -> bool:
        """Whether each block of output channels has its own weights, brought by LOADs."""
        return not self.loop_nest.weights_fixed and self.computed is None

    @property
    def computed(self) -> ComputedWeights | None:
        """Weights that are computed; None for constant ones."""
        return self.weights if isinstance(self.weights, ComputedWeights) else None

    @property
    def pools(self) -> bool:
        """Whether all kernel taps and channels share one weight tile, as in pooling and copies."""
        return self.loop_nest.weights_fixed

    @property
    def weight_bytes(self) -> int:
        """Size in bytes of all weights."""
        return self.weights.nbytes

    @property
    def weight_tile_bytes(self) -> int:
        """Size in bytes of a weight tile."""
        return self.weights.tile_bytes

    @property
    def weight_block_bytes(self) -> int:
        """Size in bytes of the weights of a block of output channels."""
        return self.weights.block_bytes

    @property
    def block_bytes(self) -> int:
        """Bytes that LOADs bring for a block of output channels: weights and parameters."""
        weights = 0 if self.computed is not None else self.weight_block_bytes
        return weights + int(self.params.shape[1])

    @property
    def has_params(self) -> bool:
        """Whether LOADs must bring parameters, such as biases and multipliers, for POST."""
        return self.params.size > 0

    @property
    def param_sets(self) -> int:
        """Number of POSTs of a tile that have parameters: one, or two if the sums are limited."""
        return 2 if self.is_limited else 1

    @property
    def used_modes(self) -> frozenset[str]:
        """Number formats in which the stage multiplies."""
        return frozenset({self.mode}) if self.macs else frozenset()

    @property
    def accumulator_post(self) -> dict[str, int] | None:
        """Fields of a POST that writes the accumulators of a tile before its results are made."""
        return None if self.post_input is None else self.post_input.post

    @property
    def adds_results(self) -> bool:
        """Whether POST adds the second input to results, by a table of sums."""
        return self.post_input is not None and self.post_input.adds_results

    @property
    def missing(self) -> bytes:
        """Bytes that POST adds in channel blocks that the second input, being narrower, lacks."""
        return b"" if self.post_input is None else self.post_input.missing

    @property
    def addend(self) -> str | None:
        """Name of the second input if POST combines it with sums or results; else None."""
        return self.inputs[1] if self.post_input is not None and len(self.inputs) > 1 else None

    @property
    def reads_with_sums(self) -> bool:
        """Whether the POST of results reads a byte of the second input with each sum."""
        return self.post_input is not None and self.post_input.post is None

    @property
    def addend_layout(self) -> OutputLayout:
        """Layout of the tensor that POST combines with sums."""
        if self.post_input is None or not self.post_input.position_bytes:
            return self.output_layout
        return Dense(grid=replace(self.grid, position_bytes=self.post_input.position_bytes))

    @property
    def is_limited(self) -> bool:
        """Whether EXEC keeps the larger of its sums and what POST put into the accumulators."""
        post = self.accumulator_post
        return post is not None and post["destination"] == Destination.ACC_SET

    @property
    def shares_sums(self) -> bool:
        """Whether the stage makes sums together with other stages, each from some channels."""
        return bool(self.shared_sums)

    @property
    def continues(self) -> bool:
        """Whether the stage adds to sums that an earlier stage left in the accumulators."""
        return SharedSums.CONTINUES in self.shared_sums

    @property
    def is_unfinished(self) -> bool:
        """Whether the stage leaves its sums to a later stage, and makes no results."""
        return SharedSums.UNFINISHED in self.shared_sums

    @property
    def grid(self) -> Grid:
        """Extent of the outputs: images, rows, positions per row, blocks of channels."""
        return self.output_layout.grid

    @property
    def makes_dense_bytes(self) -> bool:
        """Whether POST writes one byte per output to a dense tensor, and adds nothing to it."""
        layout = self.output_layout
        single = layout.limbs == self.accumulators_per_block == self.element_bytes == 1
        return layout.contiguous and single and self.addend is None

    @property
    def text(self) -> str:
        """Short description of how the stage uses the array, for messages."""
        grid, limited = self.grid, ", limited by its input" if self.is_limited else ""
        if self.sums_per_output > 1:
            limited += f", maxima of {self.sums_per_output} sums"
        text = (
            f"{type(self.loop_nest).__name__} of {self.steps} steps, {grid.blocks} output blocks, "
            f"{grid.images} x {grid.rows} x {grid.width} x {grid.position_bytes} bytes, "
            f"{self.mode}, {self.weight_bytes} bytes of weights{limited}"
        )
        for verb, layout in (("makes", self.output_layout), ("reads", self.input_layout)):
            text += f", {verb} {layout.text}" if layout.text else ""
        return text

    @property
    def accumulators_per_block(self) -> int:
        """Number of accumulators per column, position and output block: 1, or 2 if narrow."""
        return 2 if self.mode in NARROW_MODES else 1

    @property
    def post_passes(self) -> int:
        """Number of POSTs that process each output."""
        return 1 if self.accumulator_post is None else 2

    def looks_up_channels(self, blocks: int, columns: int) -> bool:
        """Return whether POST can look results up in tables by channel, of `blocks` blocks.

        Tables change between tiles, so each tile has to contain the only block.
        """
        del columns
        return self.makes_dense_bytes and self.grid.blocks == blocks == 1

    def entries(self, config: Config) -> int:
        """Return how many outputs of a block fit in one half of the accumulators."""
        return config.acc_entries // 2 // self.accumulators_per_block // self.sums_per_output

    @property
    def is_depthwise(self) -> bool:
        """Whether each block of output channels reads its own channels with its own weights."""
        return self.loop_nest.oc_step > 0 and not self.loop_nest.weights_fixed

    @property
    def size(self) -> int:
        """Size in bytes of the output, per limb."""
        return self.grid.size


Stage = ArrayStage | VectorStage
