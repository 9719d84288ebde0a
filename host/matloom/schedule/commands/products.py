"""EXECs of a product of two computed tensors, with those that make up for zero points."""

from collections.abc import Iterator

from matloom.arch.config import Config
from matloom.schedule.tiling.tiles import ArrayTile, exec_fields
from matloom.select.stage import ArrayStage

_Fields = dict[str, int]


def product_executes(
    stage: ArrayStage, tile: ArrayTile, fields: _Fields, constants: int, config: Config
) -> Iterator[_Fields]:
    """Yield the fields of a tile's EXECs.

    Parameters
    ----------
    fields:
        Those of the product itself, for operands whose zero points are 0.
    constants:
        Address of the constants that corrections use; any if there are none.
    """
    computed = stage.computed
    assert computed is not None
    if computed.selections:
        yield from _select_rows(stage, tile, fields, constants)
        return
    inside = exec_fields(stage, tile, config)["first_byte"]
    rows: list[_Fields] = []
    tiles: list[_Fields] = []
    for each in computed.corrections:
        address = constants + each.offset
        changes = {"weights_fixed": 1, "weight_addr": address}
        if each.replaces_input:
            changes = _one_row(address, stage.input_layout.row_bytes, inside) | {"y_step": 0}
        (rows if each.replaces_input else tiles).append(changes)
    if computed.shares_sums(tile.positions, tile.end_step - tile.first_step, config):
        yield from _block_by_block(stage, tile, fields, rows)
    else:
        yield fields
        yield from ({**fields, **changes, "accumulate": 1} for changes in rows)
    yield from ({**fields, **changes, "accumulate": 1} for changes in tiles)


def _one_row(address: int, row_bytes: int, first_byte: int) -> _Fields:
    """Return the fields of an EXEC that reads one row of constants as its input."""
    return {
        "input_addr": address,
        "input_pitch": 0,
        "input_rows": 1,
        "input_row_bytes": row_bytes,
        "first_row": 0,
        "first_byte": first_byte,
    }


def _select_rows(
    stage: ArrayStage, tile: ArrayTile, fields: _Fields, constants: int
) -> Iterator[_Fields]:
    """Yield the EXECs that add rows of a tensor, which constants select."""
    assert stage.computed is not None
    vector, width = fields["x_step"], fields["x_step"] * stage.grid.width
    for number, each in enumerate(stage.computed.selections):
        yield {
            **fields,
            "accumulate": int(number > 0),
            **_one_row(constants + each.offset, each.tiles * width, tile.first_x * vector),
            "kernel_rows": each.iterations,
            "kernel_cols": each.tiles,
            "kernel_col_step": width,
            "weight_addr": fields["weight_addr"] + each.first_tile * stage.computed.tile_bytes,
        }


def _block_by_block(
    stage: ArrayStage, tile: ArrayTile, fields: _Fields, rows: list[_Fields]
) -> Iterator[_Fields]:
    """Yield the product block by block.

    The entry of the last position gets the products of constant rows, from which all positions
    start.
    """
    assert stage.computed is not None
    for block in range(tile.end_block - tile.first_block):
        own = {
            **fields,
            "oc_blocks": 1,
            "weight_addr": fields["weight_addr"] + block * stage.computed.block_bytes,
            "acc_addr": fields["acc_addr"] + block * tile.positions,
        }
        last = {**own, "width": 1, "height": 1, "acc_addr": own["acc_addr"] + tile.positions - 1}
        for at, changes in enumerate(rows):
            yield {**last, **changes, "accumulate": int(at > 0)}
        yield {**own, "accumulate": 1, "broadcast_sums": 1}
