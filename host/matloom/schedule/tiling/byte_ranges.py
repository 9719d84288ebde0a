"""Cuts element-wise stages into tiles: ranges of bytes."""

import itertools
import math
import random

from matloom.arch.config import Config
from matloom.arch.softmax import BATCH
from matloom.schedule import tuning
from matloom.schedule.params import LastTiles, TilingParams
from matloom.schedule.tiling.ramps import ramp_down
from matloom.schedule.tiling.sizes import LARGEST_FIELD
from matloom.schedule.tiling.tiles import VectorTile
from matloom.select.stage import VectorStage

#: Range of bytes (half open).
_Bytes = tuple[int, int]


def _repetitions_per_tile(stage: VectorStage, most: int, config: Config) -> int:
    """Return how many repetitions of the repeated input each tile covers, at most `most`.

    For stages that fill the accumulators with that input once, for all tiles of equal size. The
    first tile takes as long as two, so there are few tiles. They are equal if possible, because a
    shorter last tile would fill the accumulators again.
    """
    count = stage.size // stage.period
    vectors = count * -(-stage.period // (config.columns * stage.element_bytes))
    least = -(-count // most)
    wanted = max(least, min(tuning.FILLED_TILES, vectors // tuning.FILLED_VECTORS))
    equal = (tiles for tiles in range(wanted, 2 * wanted) if count % tiles == 0)
    return -(-count // next(equal, wanted))


def _positions_per_tile(stage: VectorStage, most: int, config: Config) -> int:
    """Return the number of positions per tile, at most `most`, of a stage with tables by channel.

    Each tile fills the tables of all blocks but one, so few tiles save time. But the next stage
    waits for the last tile, so small tiles save time, too. The result makes the sum of both times
    small.
    """
    blocks = stage.channel_blocks
    count = stage.size // (config.columns * blocks)
    fills = (blocks - 1) * config.table_rows * config.columns
    wanted = math.isqrt(count * blocks * len(stage.posts) // fills)
    return -(-count // max(1, wanted, -(-count // most)))


def _bytes_per_equal_tile(stage: VectorStage, most: int, least: int, config: Config) -> int:
    """Return the number of bytes per tile of a stage that fills tables or accumulators.

    It is a multiple of `least`, and at most `most`; 0 for stages that fill neither.
    """
    if stage.channel_blocks > 1:
        return _positions_per_tile(stage, most // least, config) * least
    if stage.fills_once and least == stage.period:
        return _repetitions_per_tile(stage, most // least, config) * least
    return 0


def _match_producer(
    stage: VectorStage, limits: TilingParams, runs: list[list[_Bytes]], step: int, vector: int
) -> list[list[_Bytes]]:
    """Return tiles, as ranges of bytes, that end where the tiles of the producer do if possible.

    Otherwise they end with whole vectors, because part of a vector would take another POST. `runs`
    are the tiles as cut without regard to either. A tile has at most `step` bytes, a vector has
    `vector` bytes; if that is 0, tiles need not end with whole vectors.
    """
    parts = list(itertools.pairwise((0, *(end // stage.input_ratio for end in limits.cuts))))
    unit = stage.period or (vector if stage.channel_blocks else 1)
    if parts and unit and all(end % unit == 0 for _, end in parts):
        return [
            [(start, min(start + step, end)) for start in range(first, end, step)]
            for first, end in parts
        ]
    if stage.period or not vector:
        return runs
    starts = sorted({start // vector * vector for run in runs for start, _end in run})
    return [list(itertools.pairwise((*starts, stage.size)))]


def _tile_limits(stage: VectorStage, limits: TilingParams, config: Config) -> tuple[int, int, int]:
    """Return a tile's maximum of bytes, the bytes it is a multiple of, and its maximum of rows.

    A row is one repetition of the inputs that repeat. The maximum of rows is 0 if nothing repeats,
    or if a row is too large for a tile.
    """
    blocks = max(1, stage.channel_blocks)
    half, least = config.acc_entries // 2, config.columns * stage.element_bytes * blocks
    if stage.is_softmax:
        # SOFTMAX uses no accumulators.
        half = LARGEST_FIELD * -(-stage.period // least)
    most = min(half, LARGEST_FIELD) * least
    rows = min(half // -(-stage.period // least), LARGEST_FIELD) if stage.period else 0
    if rows:
        # Each run of bytes begins a new vector.
        most, least = rows * stage.period, stage.period
    byte = len(stage.inputs) * stage.input_ratio + 1
    return min(most, max(least, limits.tile_bytes // byte)), least, rows


def cut_vector(
    stage: VectorStage, limits: TilingParams, config: Config, seed: int | None
) -> list[VectorTile]:
    """Return the tiles of an element-wise stage in order; a seed draws them at random.

    If inputs repeat, a tile covers whole rows, each of them one repetition, or lies within one.
    """
    draw = None if seed is None else random.Random(seed)
    most, least, rows = _tile_limits(stage, limits, config)
    if draw is not None:
        most = draw.randint(least, max(least, most))
    whole = stage.tile_unit <= most and stage.tile_unit % (stage.period or 1) == 0
    wanted = max(-(-stage.size // limits.tiles), 16 * config.columns * stage.element_bytes)
    if stage.tile_unit == stage.size >= limits.tiles * wanted and not stage.period:
        # A single row is cut like the neighbouring stages.
        whole = False
    unit = stage.tile_unit if whole else least
    step = max(unit, min(most, wanted) // unit * unit)
    equal = _bytes_per_equal_tile(stage, most, least, config) if draw is None else 0
    step, unit = (equal, least) if equal else (step, unit)
    length = stage.period if stage.period and not rows else stage.size
    runs = [
        [(first + start, first + min(start + step, length)) for start in range(0, length, step)]
        for first in range(0, stage.size, length)
    ]
    ramps = LastTiles.ROWS in limits.last and draw is None and not (equal or stage.fills_once)
    if ramps and length % unit == 0:
        # Cut into rows, the last ones as short as possible; no tile spans two runs.
        ends = [(start // unit, end // unit) for start, end in runs[-1]]
        shortest = BATCH if stage.is_softmax else 1
        runs[-1] = [(start * unit, end * unit) for start, end in ramp_down(ends, shortest)]
    if length == stage.size:
        runs = _match_producer(stage, limits, runs, step, 0 if draw else least)
    return [VectorTile(start=start, end=end) for run in runs for start, end in run]
