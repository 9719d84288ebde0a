"""EXECs for weights of nine bits, which add products of the second part of each weight."""

from collections.abc import Iterator

from matloom.arch.config import Config
from matloom.schedule.tiling.tiles import ArrayTile, Chunk, exec_fields
from matloom.select.exec_steps import limit_steps
from matloom.select.layout.base import Fields
from matloom.select.stage import ArrayStage
from matloom.select.two_parts import TwoPartWeights


def second_parts(
    stage: ArrayStage, tile: ArrayTile, chunk: Chunk, fields: Fields, address: int, config: Config
) -> Iterator[tuple[ArrayTile, Fields]]:
    """Yield the parts of a tile that need another EXEC, for the second part of nine-bit weights.

    Each comes with the fields of its EXEC. Blocks of channels and steps of the reduction without a
    second part are left out.

    Parameters
    ----------
    fields:
        Fields of the EXEC of the whole tile.
    address:
        Address of the chunk of weights.
    """
    weights = stage.weights
    assert isinstance(weights, TwoPartWeights)
    whole, blocks = exec_fields(stage, tile, config), slice(tile.first_block, tile.end_block)
    for run, steps in weights.runs(blocks, slice(tile.first_step, tile.end_step)):
        first_step = weights.used_steps(run.start, chunk.steps).start
        start = address + weights.offset(chunk.blocks, chunk.steps, run.start)
        part, moved = tile._replace(first_block=run.start, end_block=run.stop), {**fields}
        for name, value in exec_fields(stage, part, config).items():
            moved[name] += value - whole[name]
        distance = run.start - tile.first_block
        moved |= {
            "accumulate": 1,
            "oc_blocks": len(run),
            "weight_addr": start + (steps.start - first_step) * weights.tile_bytes,
            "acc_addr": fields["acc_addr"] + distance * tile.positions * stage.sums_per_output,
            "input_addr": fields["input_addr"] + distance * stage.input_layout.plane_bytes,
        }
        first, end = steps.start - tile.first_step, steps.stop - tile.first_step
        yield part, limit_steps(moved, first, end, config.rows)
