"""Parameters of a search: bounds on the tiles of each stage, and the shape of its first tiles."""

import enum
from dataclasses import dataclass

from matloom.schedule import tuning

#: More bytes than any tile has.
UNBOUNDED = 1 << 30


class WeightsLifetime(enum.Enum):
    """Lifetime of a stage's weights in the scratchpad.

    RESIDENT: all weights stay while the stage runs. ONCE: tiles are ordered so that each chunk is
    loaded once. STREAMED: chunks are reloaded for each tile of positions.
    """

    RESIDENT = 0
    ONCE = 1
    STREAMED = 2


class FirstTiles(enum.Enum):
    """Shape of a stage's first tiles, unless it has a `Prologue`.

    WHOLE: like the other tiles. RAMP: small at first, then growing, because they wait for their
    input. SPLIT: the first tile has one output block, and its last reduction steps are a separate
    EXEC, so that only this EXEC waits for the end of the input (`first_tiles`). SPLIT_LONG: the
    same, with the rows of two tiles if one would keep the array busy too briefly.
    """

    WHOLE = 0
    RAMP = 1
    SPLIT = 2
    SPLIT_LONG = 3

    @property
    def splits(self) -> bool:
        """Whether the last reduction steps of the first tile are a separate EXEC."""
        return self in (FirstTiles.SPLIT, FirstTiles.SPLIT_LONG)


class LastTiles(enum.Flag):
    """Shape of a stage's last tiles, which may shrink towards its end.

    EVEN: not at all. CHUNKS: chunks of weights shrink, so that little is left to compute after the
    last transfer. ROWS: the rows of tiles shrink, so that little is left to transfer after the last
    tile; the last rows become tiles of fewer and fewer output blocks. BLOCKS: the output blocks of
    the last tiles shrink, so that little is left to post-process after the last EXEC.
    """

    EVEN = 0
    CHUNKS = enum.auto()
    ROWS = enum.auto()
    BLOCKS = enum.auto()


class ExternalTensors(enum.Flag):
    """Large tensors of a stage that stay in external memory: its streamed input, its output."""

    NOTHING = 0
    INPUT = enum.auto()
    OUTPUT = enum.auto()


class TileOrder(enum.Enum):
    """Dimension that a tile covers completely, if the accumulators have room.

    BY_ROWS: all output blocks of a few rows. BY_BLOCKS: all positions of a few output blocks.
    """

    BY_ROWS = 0
    BY_BLOCKS = 1


@dataclass(frozen=True, kw_only=True)
class Prologue:
    """First tiles of a matrix product, whose operands arrive in panels: parts of the reduction.

    The first panel covers `steps` steps of the reduction for `rows` rows and `blocks` output
    blocks; later panels have at least as many steps. So the array waits briefly, and then has more
    to compute than the bus has to load. Each half of the rows uses half of the accumulators.
    """

    rows: int
    blocks: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class TilingParams:
    """Bounds on the tiles of a stage, tightened until its buffers fit.

    Members
    -------
    weights:
        How long weights stay on chip.
    chunk_bytes:
        Maximum bytes of a chunk of weights: several output blocks, or several steps of one. A chunk
        has at least one weight tile.
    tile_bytes:
        Maximum input and output bytes of a tile: several rows, or several positions of one. A tile
        has at least one position.
    tiles:
        Minimum number of tiles, if there are enough rows, so that the next stage can start while
        the last tile is post-processed.
    first, last, order:
        Shape of the first tiles, shape of the last tiles, and the dimension that a tile covers
        completely. A matrix product may start panel by panel (`Prologue`).
    params_apart:
        Load parameters separately, into another bank than the weights, because POST would wait if
        weights are read in every cycle.
    outside:
        The tensors of the stage that stay in external memory; `tile_bytes` is then limited.
    cuts:
        Ends of the producer's tiles, in bytes of the input of an element-wise stage, whose tiles
        should end at the same places. Empty if that does not matter.
    turn_rows:
        Number of output rows that the stage makes before the other stage continues, if it takes
        turns with the stage before or after it; otherwise 0.
    """

    weights: WeightsLifetime
    chunk_bytes: int = UNBOUNDED
    tile_bytes: int = UNBOUNDED
    tiles: int = tuning.ORDINARY_TILES
    first: FirstTiles | Prologue = FirstTiles.WHOLE
    last: LastTiles = LastTiles.EVEN
    order: TileOrder = TileOrder.BY_ROWS
    params_apart: bool = False
    outside: ExternalTensors = ExternalTensors.NOTHING
    cuts: tuple[int, ...] = ()
    turn_rows: int = 0

    @property
    def prologue(self) -> Prologue | None:
        """Shape of the first tiles if operands arrive in parts (panels), else None."""
        return self.first if isinstance(self.first, Prologue) else None

    @property
    def splits(self) -> bool:
        """Whether the last reduction steps of the first tile are a separate EXEC."""
        return isinstance(self.first, FirstTiles) and self.first.splits


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Candidate for a schedule: shape of the first tiles, and the data that large stages reload.

    Members
    -------
    tiles, first:
        Values for the first stage, as in `TilingParams`.
    streamed:
        For data that do not fit on chip: whether to load weights again for each tile of positions,
        rather than the input again for each chunk of weights. None: as `choices.policies` estimates
        for each stage.
    addends_by_tile:
        Load the tensors added to sums tile by tile, instead of keeping them on chip.
    """

    tiles: int = tuning.ORDINARY_TILES
    first: FirstTiles | Prologue = FirstTiles.WHOLE
    streamed: bool | None = None
    addends_by_tile: bool = False

    @property
    def text(self) -> str:
        """Short description of the candidate, for lists of candidates."""
        text = f"at least {self.tiles} tiles"
        if isinstance(self.first, Prologue):
            rows, blocks, steps = self.first.rows, self.first.blocks, self.first.steps
            text += f", panels of {rows} rows, {blocks} blocks and {steps} steps first"
        text += ", small ones first" if self.first is FirstTiles.RAMP else ""
        text += ", addends by tile" if self.addends_by_tile else ""
        again = {None: "", True: ", weights again for each tile", False: ", weights once"}
        return text + again[self.streamed]


#: The candidate with the default start of the first stage.
ORDINARY_START = Candidate()
