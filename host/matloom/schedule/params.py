"""What a search chooses: bounds on the tiles of a stage, and how the first stage starts."""

import enum
from dataclasses import dataclass

__all__ = ["UNBOUNDED", "Candidate", "Prologue", "TilingParams", "Weights"]

#: More bytes than a tile has.
UNBOUNDED = 1 << 30


class Weights(enum.Enum):
    """How long the weights of a stage stay in the scratchpad.

    RESIDENT: while the stage runs; ONCE: tiles are ordered so that each chunk is loaded once;
    STREAMED: chunks are loaded again for each tile of positions.
    """

    RESIDENT = 0
    ONCE = 1
    STREAMED = 2


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
    """Bounds on the tiles of a stage, tightened until its buffers fit.

    Members
    -------
    weights:
        How long they stay.
    chunk_bytes:
        Weights of a chunk: some output blocks, or some steps of one, at least one tile.
    tile_bytes:
        Input and output bytes of a tile: some rows, or some positions of one, at least one.
    ramp_down, ramp_down_rows:
        The last chunks, or tiles, become smaller and smaller, so that little is left to do
        after the last transfer, or to transfer after the last tile. The last rows become tiles
        of fewer and fewer output blocks.
    tiles:
        Tiles at least, where the rows allow, so that the next stage can start while the last
        tile is post-processed.
    ramp_up:
        The first tiles are small, and grow, because they wait for their input.
    by_blocks:
        Tiles are all positions of a few output blocks, where the accumulators hold them,
        instead of all blocks of a few rows.
    params_apart:
        Parameters are loaded by themselves, to another bank than the weights: where weights
        are read in every cycle, POST would wait for them.
    ramp_down_blocks:
        The last tiles are of fewer and fewer output blocks, so that little is left to do
        after the last arithmetic.
    split:
        The first tile is of one block, and its last steps are an EXEC of their own, so that the
        others need not wait for what they do not read (`first_tiles`).
    long_first:
        The first tile then has the rows of two where few others leave it with too little to do.
    prologue:
        How the first outputs of a matrix product are made panel by panel, where they are.
    """

    weights: Weights
    chunk_bytes: int = UNBOUNDED
    tile_bytes: int = UNBOUNDED
    ramp_down: bool = False
    ramp_down_rows: bool = False
    tiles: int = 4
    ramp_up: bool = False
    by_blocks: bool = False
    params_apart: bool = False
    ramp_down_blocks: bool = False
    split: bool = False
    long_first: bool = False
    prologue: Prologue | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What prediction decides: how the first stage starts, and what large stages load twice.

    Members
    -------
    tiles, ramp_up, prologue:
        Of the first stage, as in `TilingParams`.
    streamed:
        Weights that do not fit are loaded for each tile of positions, not the input for each
        chunk of weights. None: for each stage what `policies` estimates.
    addends_by_tile:
        What tiles add to their sums is loaded tile by tile, not as a tensor that stays.
    """

    tiles: int = 4
    ramp_up: bool = False
    streamed: bool | None = None
    prologue: Prologue | None = None
    addends_by_tile: bool = False

    @property
    def text(self) -> str:
        """What is chosen, for people."""
        text = f"at least {self.tiles} tiles"
        if self.prologue is not None:
            rows, blocks, steps = self.prologue.rows, self.prologue.blocks, self.prologue.steps
            text += f", panels of {rows} rows, {blocks} blocks and {steps} steps first"
        text += ", small ones first" if self.ramp_up else ""
        text += ", addends by tile" if self.addends_by_tile else ""
        again = {None: "", True: ", weights again for each tile", False: ", weights once"}
        return text + again[self.streamed]
