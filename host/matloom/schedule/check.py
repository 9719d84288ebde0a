"""Checks every step of a schedule: tiles, their order, and addresses on chip."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from matloom.arch.config import Config
from matloom.schedule.plan import Buffer, Plan
from matloom.schedule.tiling.stages import Tiling
from matloom.schedule.tiling.tiles import ArrayTile, Tile, VectorTile
from matloom.select.errors import PhaseError
from matloom.select.stage import ArrayStage, Stage, VectorStage


def check_plan(plan: Plan, config: Config) -> None:
    """Check the tiles of a plan, their order, and the addresses of its buffers.

    Raises
    ------
    PhaseError
        A rule is broken; the message names the phase, the stage or buffer, and the fault.
    """
    for tiling in plan.tilings:
        check_tiles(tiling.stage, tiling.tiles)
    check_order(plan)
    check_addresses(buffers_of(plan), config)


def check_tiles(stage: Stage, tiles: Iterable[Tile]) -> None:
    """Check that tiles make each output exactly once, and do its reduction in order."""
    checks: dict[type[Stage], Callable[[Any, list[Any]], None]] = {
        ArrayStage: _check_array_tiles,
        VectorStage: _check_vector_tiles,
    }
    checks[type(stage)](stage, list(tiles))


def _check_array_tiles(stage: ArrayStage, tiles: list[ArrayTile]) -> None:
    """Check that the tiles of each output do all its reduction steps, in order and without gaps."""
    shape = (stage.grid.images, stage.grid.rows, stage.grid.width, stage.grid.blocks)
    done = np.zeros(shape, np.int32)
    for number, tile in enumerate(tiles):
        part = done[
            tile.image,
            tile.first_row : tile.end_row : tile.row_step,
            tile.first_x : tile.end_x,
            tile.first_block : tile.end_block,
        ]
        if not part.size or not (part == tile.first_step).all():
            had = sorted(set(part.ravel().tolist()))
            raise PhaseError(
                f"tile: tile {number} of {stage.name} must begin with a step that all of its "
                f"outputs wait for, {had}, not {tile.first_step}"
            )
        part[...] = tile.end_step
    if not (done == stage.loop_nest.steps).all():
        at = tuple(int(each[0]) for each in np.nonzero(done != stage.loop_nest.steps))
        raise PhaseError(
            f"tile: tiles of {stage.name} must make every output: (image, row, x, block) {at} has "
            f"{done[at]} of {stage.loop_nest.steps} steps"
        )


def _check_vector_tiles(stage: VectorStage, tiles: list[VectorTile]) -> None:
    """Check that the tiles of an element-wise stage together make each byte exactly once."""
    end = 0
    for tile in sorted(tiles, key=lambda each: each.start):
        if tile.start != end or tile.end <= tile.start:
            raise PhaseError(
                f"tile: tiles of {stage.name} must make every byte once: after byte {end} "
                f"{tile.start}..{tile.end} follows"
            )
        end = tile.end
    if end != stage.size:
        raise PhaseError(f"tile: tiles of {stage.name} must make {stage.size} bytes, not {end}")


def check_order(plan: Plan) -> None:
    """Check that each tile has one slot (place in the order), and a stage's tiles are in order."""
    following = Counter[int]()
    for number, slot in enumerate(plan.slots):
        tiles = plan.tilings[slot.stage].tiles
        if slot.number != following[slot.stage] or slot.tile is not tiles[slot.number]:
            raise PhaseError(
                f"order: slot {number} must have tile {following[slot.stage]} of "
                f"{plan.tilings[slot.stage].stage.name}, not {slot.number}"
            )
        following[slot.stage] += 1
    for index, tiling in enumerate(plan.tilings):
        _check_complete(index, tiling, following[index], plan)


def _check_complete(index: int, tiling: Tiling, slots: int, plan: Plan) -> None:
    """Check that all tiles of stage `index` are in the plan, within the span it records for it.

    A slot is a place in the order of tiles.

    `slots` is the number of slots that the plan has for the stage.
    """
    if slots != len(tiling.tiles):
        raise PhaseError(
            f"order: {tiling.stage.name} must have {len(tiling.tiles)} slots, not {slots}"
        )
    own = [number for number, slot in enumerate(plan.slots) if slot.stage == index]
    if plan.order.spans[index] != (own[0], own[-1]):
        raise PhaseError(
            f"order: {tiling.stage.name} must have slots {own[0]}..{own[-1]}, "
            f"not {plan.order.spans[index]}"
        )


def buffers_of(plan: Plan) -> list[tuple[str, Buffer]]:
    """Return each buffer of a plan once, with a description of its contents."""
    kinds = (
        *((f"tensor {name}", buffer) for name, buffer in plan.tensor_buffers.items()),
        *(("weights", buffer) for buffer in plan.weights.values()),
        *(("parameters", buffer) for buffer in plan.param_buffers.values()),
        *(("table", buffer) for buffer in plan.tables.values()),
        *(("input tile", buffer) for buffer, _range in plan.input_ranges.values()),
        *(("output tile", buffer) for buffer in plan.stagings.values()),
    )
    return list({id(buffer): (kind, buffer) for kind, buffer in reversed(kinds)}.values())[::-1]


def check_addresses(buffers: Iterable[tuple[str, Buffer]], config: Config) -> None:
    """Check that buffers lie inside the scratchpad, are aligned, and do not overlap.

    Two buffers may share bytes if their live ranges have no slot (place in the order of tiles) in
    common.
    """
    alive: list[tuple[str, Buffer]] = []
    for kind, buffer in sorted(buffers, key=lambda item: item[1].first):
        end = buffer.address + buffer.size
        if not 0 <= buffer.address <= end <= config.spad_bytes or buffer.last < buffer.first:
            raise PhaseError(
                f"allocate: {kind} must lie in the {config.spad_bytes} bytes of scratchpad, "
                f"not at {buffer.address}..{end} in slots {buffer.first}..{buffer.last}"
            )
        if buffer.address % buffer.boundary:
            raise PhaseError(
                f"allocate: {kind} must begin at a multiple of {buffer.boundary}, "
                f"not at {buffer.address}"
            )
        alive = [each for each in alive if each[1].last >= buffer.first]
        for other_kind, other in alive:
            if other.address < end and buffer.address < other.address + other.size:
                raise PhaseError(
                    f"allocate: {kind} at {buffer.address}..{end} from slot {buffer.first} on must "
                    f"not lie over {other_kind} at {other.address}..{other.address + other.size}, "
                    f"which lives until slot {other.last}"
                )
        alive.append((kind, buffer))
