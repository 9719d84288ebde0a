"""Sums over all positions of a feature map: the map becomes weights, and constants select its rows.

A weight tile brings the bytes of all rows of the array at once; a streamed vector has only as many
bytes as one row.
"""

import math
from dataclasses import replace

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.select.layout.base import Grid
from matloom.select.layout.dense import Dense
from matloom.select.layout.panels import Panels
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import ComputedWeights, Selection
from matloom.select.stage import ArrayStage
from matloom.select.window import Window

#: Maximum number of blocks of a position; with more, as many vectors enter the array as without
#: selections.
_MOST_BLOCKS = 8
#: The map, which stays on chip, fills at most the scratchpad's size divided by this number.
_SPAD_DIVISOR = 4
#: Minimum of the estimated cycles saved: the sum waits for the whole map, whereas other forms begin
#: with its first tiles. Of 372 and 192 cycles estimated for two networks, about 200 and 270 were
#: lost.
_EXTRA_CYCLES = 192
#: Maximum number of rows of taps of an EXEC.
_MOST_TAPS = largest(Opcode.EXEC, "kernel_rows")


def sum_with_map_as_weights(stage: ArrayStage, window: Window, config: Config) -> ArrayStage:
    """Return a stage that makes the same sums with the feature map as weights, if that is faster.

    Otherwise return `stage`, also if the window is not the whole map, or the map does not fit.

    Parameters
    ----------
    stage:
        A stage of sums of bytes.
    window:
        Its window; the depth is in bytes.
    """
    size = window.in_height * window.in_width * window.depth
    blocks, rest = divmod(window.depth, config.columns)
    whole = window.covers_image and window.images == 1
    if not whole or rest or blocks > _MOST_BLOCKS or size > config.spad_bytes // _SPAD_DIVISOR:
        return stage
    tiles = -(-size // (config.rows * config.columns))
    least = config.acc_update_latency
    load = max(config.tile_load_cycles, least)
    vectors = stage.loop_nest.vectors_per_step(1, stage.grid.width)
    # Its tile is fixed, so that no step waits for another.
    before = stage.steps * stage.grid.blocks * max(least, vectors)
    if tiles > _MOST_TAPS or before <= tiles * max(load, blocks) + _EXTRA_CYCLES:
        return stage
    grid = Grid(
        images=1,
        rows=1,
        width=blocks,
        position_bytes=config.columns,
        block_bytes=config.columns,
    )
    return replace(
        stage,
        output_layout=Dense(grid=grid),
        loop_nest=_position_loops(config),
        regions=tuple(replace(region, end_x=blocks) for region in stage.regions),
        weights=_map_as_weights(stage.inputs[0], size, blocks, config),
        params=np.zeros((1, 0), np.uint8),
    )


def _position_loops(config: Config) -> LoopNest:
    """Return loops with a single step, for EXECs that stream constants instead of an input."""
    return LoopNest(kernel_row_step=0, x_step=config.rows)


def _map_as_weights(tensor: str, size: int, blocks: int, config: Config) -> ComputedWeights:
    """Return a feature map as weight tiles; a row is a position's block of channels.

    For each of the `blocks` of a position, a mask selects the rows that hold this block. The masks
    repeat after a period of tiles, so one `Selection` serves all whole periods, and a second one
    the remaining tiles.
    """
    rows, count = config.rows, size // config.columns
    period = blocks // math.gcd(blocks, rows)
    again = count // (rows * period)
    tiles = -(-count // rows)
    parts = [(0, again, period), (again * period, 1, tiles - again * period)]
    constants, selections = b"", []
    for first, iterations, each in parts:
        if not iterations * each:
            continue
        row = np.arange(first * rows, (first + each) * rows).reshape(each, 1, rows)
        selected = (row % blocks == np.arange(blocks).reshape(1, -1, 1)) & (row < count)
        selections.append(
            Selection(offset=len(constants), first_tile=first, iterations=iterations, tiles=each)
        )
        constants += selected.astype(np.int8).tobytes()
    panels = Panels(
        images=1, inner=count, columns=config.columns, depth=tiles * rows, width=config.columns
    )
    return ComputedWeights(
        tensor=tensor,
        layout=panels,
        steps=tiles,
        tile_bytes=rows * config.columns,
        constants=constants,
        selections=tuple(selections),
    )
