"""Cutting stages into tiles: which outputs one EXEC and POST, or one set of POSTs, make."""

import itertools
import random
from dataclasses import dataclass

from matloom.arch.config import Config
from matloom.schedule.stage import ArrayStage, Region, VectorStage

__all__ = ["ArrayTile", "Limits", "Tile", "VectorTile", "chunks", "cut", "input_rows"]

#: Tiles that a stage has at least where its rows allow, so that the next stage can start
#: while the last tile is post-processed.
_TILES = 4

_LARGEST_FIELD = 4095


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on the tiles of a stage, tightened until its buffers fit.

    Members
    -------
    resident:
        All weights of the stage stay in the scratchpad while it runs; otherwise its tiles
        are ordered so that each chunk is loaded once.
    chunk_bytes:
        Weights of a chunk, at least one output block.
    tile_bytes:
        Input and output bytes of a tile, at least one row.
    taper, taper_rows:
        The last chunks, or tiles, become smaller and smaller, so that little is left to do
        behind the last transfer, or to transfer behind the last tile.
    """

    resident: bool
    chunk_bytes: int = 1 << 30
    tile_bytes: int = 1 << 30
    taper: bool = False
    taper_rows: bool = False


@dataclass(frozen=True, kw_only=True)
class ArrayTile:
    """Output rows, positions and blocks (half open) of one image, with the weights' chunk."""

    image: int
    first_row: int
    end_row: int
    first_x: int
    end_x: int
    first_block: int
    end_block: int
    chunk: int
    post: dict[str, int]

    @property
    def positions(self) -> int:
        """Output positions, each an accumulator entry for every block."""
        return (self.end_row - self.first_row) * (self.end_x - self.first_x)

    @property
    def entries(self) -> int:
        """Accumulator entries."""
        return self.positions * (self.end_block - self.first_block)


@dataclass(frozen=True, kw_only=True)
class VectorTile:
    """A range of bytes (half open) of flat tensors."""

    start: int
    end: int


Tile = ArrayTile | VectorTile


def input_rows(stage: ArrayStage, tile: ArrayTile) -> tuple[int, int]:
    """Return the rows of the image (half open, at least one) that a tile reads."""
    walk = stage.walk
    first = tile.first_row * walk.y_step - walk.pad_top
    last = (tile.end_row - 1) * walk.y_step - walk.pad_top
    last += (walk.kernel_rows - 1) * walk.kernel_row_step
    low = min(max(first, 0), stage.in_rows - 1)
    return low, max(low, min(last, stage.in_rows - 1)) + 1


def chunks(stage: ArrayStage, limits: Limits) -> list[tuple[int, int]]:
    """Return the ranges of output blocks whose weights and parameters are loaded together."""
    if stage.walk.weights_fixed:
        return [(0, stage.oc_blocks)]
    block_bytes = stage.weights.shape[1] + stage.params.shape[1]
    blocks = max(1, min(limits.chunk_bytes // max(1, block_bytes), stage.oc_blocks))
    end, tail = stage.oc_blocks, [stage.oc_blocks]
    size = 1
    while limits.taper and size < blocks and end > size:
        end -= size
        tail.append(end)
        size *= 2
    return list(itertools.pairwise([*range(0, end, blocks), *reversed(tail)]))


def _pieces(first: int, end: int, size: int) -> list[tuple[int, int]]:
    """Cut a range into the fewest pieces of at most `size`, as equal as can be."""
    count = -(-(end - first) // size)
    edges = [first + (end - first) * index // count for index in range(count + 1)]
    return list(itertools.pairwise(edges))


def _tapered(pieces: list[tuple[int, int]], shortest: int) -> list[tuple[int, int]]:
    """Halve the last piece, and its second half, as long as both have `shortest` rows."""
    *pieces, (first, end) = pieces
    while (end - first) // 2 >= shortest:
        middle = first + (end - first + 1) // 2
        pieces.append((first, middle))
        first = middle
    return [*pieces, (first, end)]


class _Sizes:
    """Rows, positions and blocks of a tile in a region."""

    def __init__(
        self,
        stage: ArrayStage,
        region: Region,
        limits: Limits,
        config: Config,
        blocks: int,
        draw: random.Random | None,
    ):
        half = config.acc_entries // 2
        width = region.end_x - region.first_x
        height = region.end_row - region.first_row
        self.width = min(width, half, _LARGEST_FIELD)
        single = stage.block_bytes != config.columns
        self.blocks = 1 if single else max(1, min(blocks, half // self.width))
        most = max(1, min(half // (self.width * self.blocks), _LARGEST_FIELD))
        row_bytes = stage.in_row_bytes * max(1, stage.walk.y_step) + stage.row_bytes
        halo = (stage.walk.kernel_rows - 1) * stage.walk.kernel_row_step * stage.in_row_bytes
        fit = max(1, (limits.tile_bytes - halo) // row_bytes)
        self.shortest = -(-max(2 * config.tile_load_cycles, 16) // self.width)
        wanted = max(-(-height // _TILES), self.shortest)
        self.height = max(1, min(most, fit, wanted, height))
        if draw is not None:
            self.width = draw.randint(1, self.width)
            self.height = draw.randint(1, max(1, min(half // self.width, fit, height)))
            most_blocks = half // (self.width * self.height)
            self.blocks = 1 if single else draw.randint(1, max(1, min(blocks, most_blocks)))


def _cut_array(
    stage: ArrayStage, limits: Limits, config: Config, draw: random.Random | None
) -> list[ArrayTile]:
    parts = chunks(stage, limits)
    tiles = []
    for image in range(stage.images):
        for region in stage.regions:
            largest = max(end - first for first, end in parts)
            sizes = _Sizes(stage, region, limits, config, largest, draw)
            row_pieces = _pieces(region.first_row, region.end_row, sizes.height)
            if limits.taper_rows:
                row_pieces = _tapered(row_pieces, sizes.shortest)
            for rows in row_pieces:
                for xs in _pieces(region.first_x, region.end_x, sizes.width):
                    for chunk, part in enumerate(parts):
                        for blocks in _pieces(*part, sizes.blocks):
                            tiles.append(
                                ArrayTile(
                                    image=image,
                                    first_row=rows[0],
                                    end_row=rows[1],
                                    first_x=xs[0],
                                    end_x=xs[1],
                                    first_block=blocks[0],
                                    end_block=blocks[1],
                                    chunk=chunk,
                                    post=region.post,
                                )
                            )
    if not limits.resident:
        tiles.sort(key=lambda tile: tile.chunk)
    return tiles


def _cut_vector(
    stage: VectorStage, limits: Limits, config: Config, draw: random.Random | None
) -> list[VectorTile]:
    half = config.acc_entries // 2
    most = min(half, _LARGEST_FIELD) * config.columns
    most = min(most, max(config.columns, limits.tile_bytes // (len(stage.inputs) + 1)))
    if draw is not None:
        most = draw.randint(config.columns, max(config.columns, most))
    unit = stage.granule if stage.granule <= most else config.columns
    wanted = max(-(-stage.size // _TILES), 16 * config.columns)
    step = max(unit, min(most, wanted) // unit * unit)
    return [
        VectorTile(start=start, end=min(start + step, stage.size))
        for start in range(0, stage.size, step)
    ]


def cut(
    stage: ArrayStage | VectorStage, limits: Limits, config: Config, seed: int | None
) -> list[Tile]:
    """Return the tiles of a stage in the order in which they run."""
    draw = None if seed is None else random.Random(seed)
    if isinstance(stage, ArrayStage):
        return list(_cut_array(stage, limits, config, draw))
    return list(_cut_vector(stage, limits, config, draw))
