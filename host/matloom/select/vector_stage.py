"""Element-wise operators as POST runs them, before they are cut into tiles."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Destination
from matloom.select.layout.base import Grid, InputLayout, OutputLayout
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.operand import ComputedWeights

#: For each POST, the index of its input (None if it reads accumulators) and its fields.
Posts = tuple[tuple[int | None, dict[str, int]], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorStage:
    """An element-wise operator as POST instructions over the same flat range of bytes.

    Members
    -------
    size:
        Size in bytes of the output.
    element_bytes:
        Size in bytes of an output element.
    input_ratio:
        Size of an input element divided by that of an output element.
    tile_unit:
        Tiles are multiples of this many bytes: a row of the tensor, so that they match the tiles of
        neighbouring stages.
    posts:
        For each POST, the index of its input (None if it reads accumulators) and its fields.
    period, repeated:
        Number of output bytes after which inputs repeat, and the indices of these inputs. The
        period is 0 if no input repeats or is narrow, and it is no SOFTMAX.
    narrow, narrow_bytes:
        Index of the input whose rows are shorter than a period, and their bytes; None and 0 if
        there is none.
    starts:
        For each input, the first byte that the stage reads; empty if all are 0.
    edge:
        Index of the POST that makes only the vectors with elements beyond a narrow input; None if
        there is no such POST.
    is_softmax:
        Whether the POST computes SOFTMAX of rows of `period` bytes.
    table:
        As in `ArrayStage`; for SOFTMAX the bytes of the exponentials, uint8 (1024,).
    is_lookup_only:
        Whether the POST changes nothing before the table, so the stage is a pure lookup.
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
    narrow: int | None = None
    narrow_bytes: int = 0
    starts: tuple[int, ...] = ()
    edge: int | None = None
    is_softmax: bool = False
    table: np.ndarray | None = field(default=None, repr=False)
    is_lookup_only: bool = False

    #: Whether the stage computes elements of flat tensors, whatever their shapes.
    is_elementwise: ClassVar[bool] = True

    #: A vector stage has no weights, parameters or products.
    loads_weights: ClassVar[bool] = False
    pools: ClassVar[bool] = False
    is_depthwise: ClassVar[bool] = False
    has_params: ClassVar[bool] = False
    has_costly_tiles: ClassVar[bool] = False
    steps: ClassVar[int] = 0
    weight_bytes: ClassVar[int] = 0
    weight_tile_bytes: ClassVar[int] = 0
    weight_block_bytes: ClassVar[int] = 0
    block_bytes: ClassVar[int] = 0
    used_modes: ClassVar[frozenset[str]] = frozenset()
    addend: ClassVar[str | None] = None
    adds_results: ClassVar[bool] = False
    missing: ClassVar[bytes] = b""
    computed: ClassVar[ComputedWeights | None] = None
    is_limited: ClassVar[bool] = False
    shares_sums: ClassVar[bool] = False
    reads_row_by_row: ClassVar[bool] = False

    #: Whether POST writes positions of channels to a dense tensor; elements have no positions.
    makes_dense_bytes: ClassVar[bool] = False

    #: None, because the stage does not stream through the array.
    array: ClassVar[None] = None

    @property
    def vector(self) -> "VectorStage":
        """The stage itself, because it is element-wise."""
        return self

    def reads_rows_of(self, producer: object) -> bool:
        """Return False, because the stage reads flat tensors, not rows of another stage."""
        del producer
        return False

    @property
    def reads_parts(self) -> bool:
        """Whether the stage may read parts of larger tensors: no input repeats or is narrower."""
        return not self.repeated and self.narrow is None

    def with_parts(self, parts: Mapping[str, tuple[str, int]]) -> "VectorStage":
        """Return the stage with some inputs replaced by parts of larger tensors.

        `parts` maps the name of an input to the name of a larger tensor and the part's first byte.
        """
        if not parts.keys() & set(self.inputs):
            return self
        found = [parts.get(name, (name, 0)) for name in self.inputs]
        inputs, starts = zip(*found, strict=True)
        return replace(self, inputs=inputs, starts=starts)

    @property
    def channel_blocks(self) -> int:
        """Number of blocks of channels whose tables differ; 0 if it has one table or none."""
        return 0 if self.table is None or self.table.ndim == 1 else len(self.table)

    @property
    def text(self) -> str:
        """Short description of how the stage uses POST, for messages."""
        if self.is_softmax:
            return f"SOFTMAX of {self.size // self.period} rows of {self.period} bytes"
        begins = zip(self.inputs, self.starts, strict=False)
        parts = [f", {name} from byte {start} on" for name, start in begins if start]
        return "".join((f"{len(self.posts)} POSTs over {self.size} bytes", *parts))

    @property
    def post_passes(self) -> int:
        """Number of POSTs that process each output."""
        return len(self.posts)

    def looks_up_channels(self, blocks: int, columns: int) -> bool:
        """Return whether POST can look results up in tables by channel, of `blocks` blocks.

        Any number of blocks is possible. A period with a narrow input has to be one position.
        """
        positions = self.narrow is not None and self.period == blocks * columns
        plain = self.element_bytes == self.input_ratio == 1 and not self.is_softmax
        return plain and (positions or not self.period)

    def entries(self, config: Config) -> int:
        """Return the number of entries in half of the accumulators."""
        return config.acc_entries // 2

    @property
    def fills_once(self) -> bool:
        """Whether one POST sets the accumulators to a repeated input, and no other changes them."""
        if not self.repeated:
            return False
        (first, fields), *others = self.posts
        changes = {post["destination"] for _source, post in others}
        sets = fields["destination"] == Destination.ACC_SET and first in self.repeated
        return sets and changes == {Destination.SPAD}

    @property
    def repeated_inputs(self) -> frozenset[str]:
        """Names of the inputs that repeat."""
        return frozenset(self.inputs[at] for at in self.repeated)

    @property
    def uneven_inputs(self) -> frozenset[str]:
        """Names of inputs from which a tile reads another range of bytes than it writes."""
        narrow = [] if self.narrow is None else [self.inputs[self.narrow]]
        parts = [self.inputs[at] for at, start in enumerate(self.starts) if start]
        return self.repeated_inputs.union(narrow, parts)

    def start(self, index: int) -> int:
        """Return the first byte that the stage reads of the input with this index."""
        return self.starts[index] if self.starts else 0

    @property
    def streamed_inputs(self) -> tuple[str, ...]:
        """Names of the inputs, all of which are read tile by tile."""
        return self.inputs

    @property
    def grid(self) -> Grid:
        """The output as a grid: one image of one position, of one block."""
        return self.output_layout.grid

    @property
    def input_layout(self) -> InputLayout:
        """The inputs as one row of bytes."""
        return DenseInput(rows=1, row_bytes=self.size * self.input_ratio)

    @property
    def output_layout(self) -> OutputLayout:
        """Layout of the output: a dense tensor of one position."""
        size = self.size
        grid = Grid(images=1, rows=1, width=1, position_bytes=size, block_bytes=size)
        return Dense(grid=grid)
