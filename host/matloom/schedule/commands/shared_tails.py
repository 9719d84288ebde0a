"""EXECs of a dense layer whose last inputs fill only part of the array's rows.

Several blocks of output channels then share one weight tile, each with some of its rows.
"""

from collections.abc import Iterator

from matloom.arch.config import Config
from matloom.schedule.tiling.tiles import ArrayTile, Chunk
from matloom.select.operand import SharedTailWeights
from matloom.select.stage import ArrayStage

_Fields = dict[str, int]


def end_of_whole_steps(stage: ArrayStage, end_step: int) -> int:
    """Return the end of the steps before `end_step` in which each block has its own weight tile."""
    weights = stage.weights
    return (
        min(end_step, weights.whole.steps) if isinstance(weights, SharedTailWeights) else end_step
    )


def shared_tail_executes(
    stage: ArrayStage, tile: ArrayTile, chunk: Chunk, fields: _Fields, address: int, config: Config
) -> Iterator[_Fields]:
    """Yield the fields of the EXECs of a tile: one for whole steps, then those of the last step.

    Several output blocks share the weight tile of the last step, each with some of the tile's rows.
    For each block, EXEC reads the last bytes of the input with another shift, so that they meet the
    rows of this block; zeros enter the other rows.

    Parameters
    ----------
    fields:
        Fields of a single EXEC for all steps.
    address:
        Address of the chunk of weights.
    """
    weights = stage.weights
    assert isinstance(weights, SharedTailWeights)
    end = end_of_whole_steps(stage, tile.end_step)
    if tile.first_step < end:
        yield {**fields, "blocks": end - tile.first_step}
    if tile.end_step < weights.steps:
        return
    rows, together = weights.tail_bytes // config.columns, weights.tile_bytes // weights.tail_bytes
    blocks, start = chunk.end_block - chunk.first_block, tile.first_block - chunk.first_block
    before = fields["first_byte"] + (weights.whole.steps - tile.first_step) * config.rows
    whole = slice(chunk.first_step, weights.whole.steps)
    first_tail = address + weights.whole.chunk_bytes(chunk.blocks, whole)
    for first in range(0, fields["oc_blocks"], together):
        count = min(together, fields["oc_blocks"] - first)
        # Tails of a chunk are in reverse order, and a tile lies within them.
        last = blocks - start - first - count
        low = max(0, min(last, blocks - together))
        yield {
            **fields,
            "accumulate": 1,
            "weights_fixed": 1,
            "blocks": 1,
            "oc_blocks": count,
            "oc_step": rows,
            "input_addr": fields["input_addr"] + before,
            "input_row_bytes": fields["input_row_bytes"] - before,
            "first_byte": -(last + count - 1 - low) * rows,
            "pad_value": 0,
            "weight_addr": first_tail + low * weights.tail_bytes,
            "acc_addr": fields["acc_addr"] + first * tile.positions,
        }
