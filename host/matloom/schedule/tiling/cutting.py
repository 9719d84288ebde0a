"""Cuts stages of the array into tiles, and their weights into chunks."""

import itertools
import random
from collections.abc import Iterator

from matloom.arch.config import Config
from matloom.schedule.params import FirstTiles, LastTiles, TilingParams, WeightsLifetime
from matloom.schedule.tiling.first_tiles import join_first_rows, split_first_steps
from matloom.schedule.tiling.prologue import GROUPS, panels, rectangles
from matloom.schedule.tiling.ramps import ramp_down, ramp_up, split_evenly
from matloom.schedule.tiling.sizes import Sizes
from matloom.schedule.tiling.split_k import step_parts
from matloom.schedule.tiling.tiles import ArrayTile, Chunk
from matloom.select.stage import ArrayStage, OutputRegion

#: Range of rows or positions (half open).
_Rows = tuple[int, int]


def chunks(stage: ArrayStage, limits: TilingParams, config: Config) -> list[Chunk]:
    """Return the chunks in which weights are loaded: ranges of channels and of steps.

    Channels are in blocks, as many as the array has columns; a step is one weight tile of the
    reduction. Parameters come with the chunks that have the last steps.
    """
    steps = stage.loop_nest.steps
    if stage.loop_nest.weights_fixed or stage.computed is not None:
        return [Chunk(first_block=0, end_block=stage.grid.blocks, first_step=0, end_step=steps)]
    block_bytes = stage.block_bytes
    blocks = max(1, min(limits.chunk_bytes // max(1, block_bytes), stage.grid.blocks))
    if stage.loop_nest.is_long:
        blocks = 1
    end, tail = stage.grid.blocks, [stage.grid.blocks]
    size = 1
    while LastTiles.CHUNKS in limits.last and size < blocks and end > size:
        end -= size
        tail.append(end)
        size *= 2
    ranges = step_parts(stage, limits, config) if blocks == 1 else [(0, steps)]
    first_block, prologue = 0, []
    if limits.prologue is not None:
        first_block = min(limits.prologue.blocks, stage.grid.blocks)
        prologue = [
            Chunk(first_block=0, end_block=first_block, first_step=begin, end_step=finish)
            for begin, finish in panels(steps, limits.prologue.steps)
        ]
        tail = [edge for edge in tail if edge > first_block]
        end = max(end, first_block)
    edges = [*(range(first_block, end, blocks) or [first_block]), *reversed(tail)]
    return [
        *prologue,
        *(
            Chunk(first_block=first, end_block=last, first_step=begin, end_step=finish)
            for first, last in itertools.pairwise(edges)
            for begin, finish in ranges
        ),
    ]


def _positions(
    stage: ArrayStage, limits: TilingParams, config: Config, draw: random.Random | None
) -> Iterator[tuple[OutputRegion, Sizes, int, _Rows | None, tuple[_Rows, _Rows]]]:
    """Yield rectangles of output positions for tiles, each with its region, sizes, image, strip.

    Yields tuples of the output region, the sizes of its tiles, the index of the image, the strip of
    rows (None if there are no strips), and the rectangle's ranges of rows and columns (half open).
    """
    largest = max(c.end_block - c.first_block for c in chunks(stage, limits, config))
    half = stage.entries(config)
    for image in range(stage.grid.images):
        for region in stage.regions:
            sizes = Sizes(stage, region, limits, config, largest, draw)
            edge = _prologue_rows(stage, limits, config) or region.end_row
            # Tiles that cover every other row come in pairs.
            stride = stage.output_layout.row_stride
            height = stride * sizes.height
            strips = split_evenly(region.first_row, edge, sizes.strip or height)
            row_pieces = [piece for strip in strips for piece in split_evenly(*strip, height)]
            if edge < region.end_row:
                row_pieces += split_evenly(edge, region.end_row, height)
            if LastTiles.ROWS in limits.last:
                row_pieces = ramp_down(row_pieces, sizes.last)
            if limits.first is FirstTiles.RAMP and not image:
                row_pieces = ramp_up(row_pieces, sizes.min_rows)
            if limits.first is FirstTiles.SPLIT_LONG and stride == 1 and not image:
                most = half // (sizes.width * sizes.blocks)
                row_pieces = join_first_rows(stage, row_pieces, sizes.width, most)
            for rows in _repeat_for_stride(row_pieces, stride):
                strip = _strip_around(rows, strips) if sizes.strip else None
                for xs in split_evenly(region.first_x, region.end_x, sizes.width):
                    yield region, sizes, image, strip, (rows, xs)


def _strip_around(rows: tuple[int, int], strips: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the strip that contains a range of rows; None if no strip does."""
    return next((strip for strip in strips if strip[0] <= rows[0] and rows[1] <= strip[1]), None)


def _repeat_for_stride(pieces: list[tuple[int, int]], stride: int) -> list[tuple[int, int]]:
    """Return ranges of rows for tiles that cover every `stride`-th row.

    Each piece becomes up to `stride` ranges, which start at its first rows and share its end.
    """
    return [(row, end) for first, end in pieces for row in range(first, min(first + stride, end))]


def _prologue_rows(stage: ArrayStage, limits: TilingParams, config: Config) -> int:
    """Return the output rows computed while operands still arrive (the prologue); 0 for none."""
    if limits.prologue is None:
        return 0
    blocks = min(limits.prologue.blocks, stage.grid.blocks)
    # Leave some outputs for later: those of the prologue are written and stored meanwhile.
    rows = stage.grid.rows if blocks < stage.grid.blocks else stage.grid.rows * 8 // 9
    most = 2 * stage.entries(config) // blocks
    return min(rows, limits.prologue.rows, most) // GROUPS * GROUPS


def _prologue_tiles(stage: ArrayStage, limits: TilingParams, config: Config) -> list[ArrayTile]:
    """Return the tiles of a matrix product's start, one part of the reduction (panel) each."""
    rows = _prologue_rows(stage, limits, config)
    if not rows:
        return []
    loaded = [c for c in chunks(stage, limits, config) if c.first_block == 0]
    return [
        ArrayTile(
            image=0,
            first_row=part.rows[0],
            end_row=part.rows[1],
            first_x=0,
            end_x=stage.grid.width,
            first_block=part.blocks[0],
            end_block=part.blocks[1],
            first_step=chunk.first_step,
            end_step=chunk.end_step,
            chunk=number,
            post=stage.regions[0].post,
            prologue_sums=part.prologue_sums,
        )
        for number, chunk in enumerate(loaded)
        for part in rectangles(rows // GROUPS, chunk.end_block, first=not number)
    ]


def _tile(
    stage: ArrayStage,
    region: OutputRegion,
    image: int,
    outputs: tuple[tuple[int, int], ...],
    part: tuple[int, int, int],
    strip: tuple[int, int] | None,
) -> ArrayTile:
    """Return a tile of an image and an output region.

    `outputs` has its ranges of rows, columns and output blocks (half open). `part` has its weight
    chunk, its first step and its end step. `strip` are the rows whose input it shares with other
    tiles, if any.
    """
    rows, xs, blocks = outputs
    chunk, first_step, end_step = part
    return ArrayTile(
        image=image,
        first_row=rows[0],
        end_row=rows[1],
        first_x=xs[0],
        end_x=xs[1],
        first_block=blocks[0],
        end_block=blocks[1],
        first_step=first_step,
        end_step=end_step,
        chunk=chunk,
        post=region.post,
        row_step=stage.output_layout.row_stride,
        strip=strip,
    )


def cut_array(
    stage: ArrayStage, limits: TilingParams, config: Config, seed: int | None
) -> list[ArrayTile]:
    """Return the tiles of an array stage in execution order; a seed draws them at random.

    Tiles of the same outputs are consecutive, with their steps in order.
    """
    draw = None if seed is None else random.Random(seed)
    loaded = list(enumerate(chunks(stage, limits, config)))
    groups = [list(group) for _, group in itertools.groupby(loaded, lambda c: c[1].first_block)]
    inner = step_parts(stage, limits, config) if stage.loop_nest.weights_fixed else None
    tiles = _prologue_tiles(stage, limits, config)
    prologue_sums = (tiles[-1].end_row, tiles[-1].end_block) if tiles else (0, 0)
    last = (stage.grid.images - 1, stage.regions[-1].end_row, stage.regions[-1].end_x)
    for region, sizes, image, strip, (rows, xs) in _positions(stage, limits, config, draw):
        for group in groups:
            if rows[1] <= prologue_sums[0] and group[0][1].end_block <= prologue_sums[1]:
                continue
            steps = [(number, c.first_step, c.end_step) for number, c in group]
            if inner is not None:
                steps = [(0, first, end) for first, end in inner]
            split = limits.splits and not tiles
            size = 1 if split and inner is None else sizes.blocks
            pieces = split_evenly(group[0][1].first_block, group[0][1].end_block, size)
            ramps = limits.last & (LastTiles.ROWS | LastTiles.BLOCKS)
            final = (image, rows[1], xs[1]) == last
            if ramps and final and group is groups[-1]:
                pieces = ramp_down(pieces, 1)
            for blocks in pieces:
                for part in split_first_steps(stage, steps) if split else steps:
                    tiles.append(_tile(stage, region, image, (rows, xs, blocks), part, strip))
                split = False
    if limits.weights is WeightsLifetime.ONCE:
        tiles.sort(key=lambda tile: loaded[tile.chunk][1].first_block)
    return tiles
