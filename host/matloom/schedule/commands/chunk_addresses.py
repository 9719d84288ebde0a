"""Finds scratchpad addresses of weights and parameters within their chunks."""

from matloom.schedule.commands.shared_tails import end_of_whole_steps
from matloom.schedule.plan import Plan
from matloom.schedule.tiling.tiles import ArrayTile
from matloom.select.stage import ArrayStage


def chunk_addresses(
    plan: Plan, slot_index: int, stage: ArrayStage, tile: ArrayTile
) -> tuple[int, int]:
    """Return the addresses of a tile's first weights and parameters; 0 for no parameters."""
    index, computed = plan.slots[slot_index].stage, stage.computed
    if computed is not None:
        home = plan.address(computed.tensor)
        return home + computed.first_byte(tile.image, tile.first_block, tile.first_step), 0
    chunk = plan.tilings[index].chunks[tile.chunk]
    base = plan.weights[slot_index].address
    tile_bytes, param_bytes = stage.weight_tile_bytes, stage.params.shape[1]
    offset = tile.first_block - chunk.first_block
    size = (end_of_whole_steps(stage, chunk.end_step) - chunk.first_step) * tile_bytes
    weights = base + offset * size + (tile.first_step - chunk.first_step) * tile_bytes
    if stage.loop_nest.weights_fixed:
        weights, params = base, base + tile_bytes + offset * param_bytes
    elif index in plan.param_buffers:
        params = plan.param_buffers[index].address + tile.first_block * param_bytes
    else:
        weight_bytes = stage.weights.chunk_bytes(chunk.blocks, chunk.steps)
        params = base + weight_bytes + offset * param_bytes
    # Without parameters the address is ignored; it might be the end of the scratchpad.
    return weights, params if param_bytes else 0


def params_and_limit_addresses(
    plan: Plan, number: int, stage: ArrayStage, tile: ArrayTile, first: int
) -> tuple[int, int]:
    """Return the addresses of a tile's two sets of parameters: of its results, and of its limit.

    The limit is what POST writes to the accumulators first, for EXEC to keep the larger sums.

    Parameters
    ----------
    first:
        Address that the parameters would have if each block's were adjacent.
    """
    index, block = plan.slots[number].stage, tile.first_block
    chunk, size = plan.tilings[index].chunks[tile.chunk], stage.params.shape[1] // 2
    apart = index in plan.param_buffers
    start, end = (0, stage.grid.blocks) if apart else (chunk.first_block, chunk.end_block)
    results = first - (block - start) * size
    return results, results + (end - start) * size
