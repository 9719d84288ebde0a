"""Parameters of a search: bounds on the tiles of each stage, and the start of the first one."""

import enum
from dataclasses import dataclass

from matloom.schedule import tuning

__all__ = [
    "ORDINARY_START",
    "UNBOUNDED",
    "Candidate",
    "First",
    "Last",
    "Order",
    "Prologue",
    "TilingParams",
    "Weights",
]

#: More bytes than a tile has.
UNBOUNDED = 1 << 30


class Weights(enum.Enum):
    """Lifetime of a stage's weights in the scratchpad.

    RESIDENT: while the stage runs; ONCE: tiles are ordered so that each chunk is loaded once;
    STREAMED: chunks are loaded again for each tile of positions.
    """

    RESIDENT = 0
    ONCE = 1
    STREAMED = 2


class First(enum.Enum):
    """Shape of a stage's first tiles, if there is no `Prologue`.

    WHOLE: like the others.
    RAMP: small, and growing, because they wait for their input.
    SPLIT: the first tile is of one output block, and its last steps are an EXEC of their own, so
    that the others need not wait for what they do not read (`first_tiles`).
    SPLIT_LONG: the same, with the rows of two tiles where one would leave too little to do.
    """

    WHOLE = 0
    RAMP = 1
    SPLIT = 2
    SPLIT_LONG = 3

    @property
    def splits(self) -> bool:
        """Whether the first tile's last steps are an EXEC of their own."""
        return self in (First.SPLIT, First.SPLIT_LONG)


class Last(enum.Flag):
    """Pieces that shrink towards the end of a stage.

    EVEN: nothing. CHUNKS: chunks of weights, so that little is left to do after the last transfer.
    ROWS: the rows of tiles, so that little is left to transfer after the last tile; the last rows
    become tiles of fewer and fewer output blocks. BLOCKS: the output blocks of the last tiles, so
    that little is left to do after the last arithmetic.
    """

    EVEN = 0
    CHUNKS = enum.auto()
    ROWS = enum.auto()
    BLOCKS = enum.auto()


class Order(enum.Enum):
    """Dimension that a tile covers whole, if the accumulators have room.

    BY_ROWS: all output blocks of a few rows. BY_BLOCKS: all positions of a few output blocks.
    """

    BY_ROWS = 0
    BY_BLOCKS = 1


@dataclass(frozen=True, kw_only=True)
class Prologue:
    """The first tiles of a matrix product, whose operands arrive panel by panel of the inner size.

    A panel of `rows` rows and `blocks` output blocks is `steps` steps of the reduction: little to
    wait for, and more arithmetic than transfer. Each half of the rows has half of the accumulators.
    """

    rows: int
    blocks: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class TilingParams:
    """Bounds on the tiles of a stage, which are tightened until its buffers fit.

    Members
    -------
    weights:
        How long they stay.
    chunk_bytes:
        Weights of a chunk: some output blocks, or some steps of one, at least one tile.
    tile_bytes:
        Input and output bytes of a tile: some rows, or some positions of one, at least one.
    tiles:
        Tiles at least, where the rows allow, so that the next stage can start while the last
        tile is post-processed.
    first, last, order:
        How the first and the last tiles differ from the others, and what a tile has all of. The
        first outputs of a matrix product may be made panel by panel (`Prologue`).
    params_apart:
        Parameters are loaded by themselves, to another bank than the weights: where weights
        are read in every cycle, POST would wait for them.
    """

    weights: Weights
    chunk_bytes: int = UNBOUNDED
    tile_bytes: int = UNBOUNDED
    tiles: int = tuning.ORDINARY_TILES
    first: First | Prologue = First.WHOLE
    last: Last = Last.EVEN
    order: Order = Order.BY_ROWS
    params_apart: bool = False

    @property
    def prologue(self) -> Prologue | None:
        """Panels of the first outputs; None if these are not made panel by panel."""
        return self.first if isinstance(self.first, Prologue) else None

    @property
    def splits(self) -> bool:
        """Whether the first tile's last steps are an EXEC of their own."""
        return isinstance(self.first, First) and self.first.splits


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Candidate of a search: the start of the first stage, and what large stages load repeatedly.

    Members
    -------
    tiles, first:
        Of the first stage, as in `TilingParams`.
    streamed:
        Weights that do not fit are loaded for each tile of positions, not the input for each
        chunk of weights. None: for each stage what `choices.policies` estimates.
    addends_by_tile:
        What tiles add to their sums is loaded tile by tile, not as a tensor that stays.
    """

    tiles: int = tuning.ORDINARY_TILES
    first: First | Prologue = First.WHOLE
    streamed: bool | None = None
    addends_by_tile: bool = False

    @property
    def text(self) -> str:
        """Description for people."""
        text = f"at least {self.tiles} tiles"
        if isinstance(self.first, Prologue):
            rows, blocks, steps = self.first.rows, self.first.blocks, self.first.steps
            text += f", panels of {rows} rows, {blocks} blocks and {steps} steps first"
        text += ", small ones first" if self.first is First.RAMP else ""
        text += ", addends by tile" if self.addends_by_tile else ""
        again = {None: "", True: ", weights again for each tile", False: ", weights once"}
        return text + again[self.streamed]


#: The start of which nothing is special.
ORDINARY_START = Candidate()
