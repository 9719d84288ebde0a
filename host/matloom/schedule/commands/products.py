"""EXECs of a product of two computed tensors, with others that correct for zero points."""

from collections.abc import Iterator

from matloom.arch.config import Config
from matloom.schedule.tiling.tiles import ArrayTile, exec_fields
from matloom.select.stage import ArrayStage

_Fields = dict[str, int]


def product_executes(
    stage: ArrayStage, tile: ArrayTile, fields: _Fields, constants: int, config: Config
) -> Iterator[_Fields]:
    """Yield the fields of all EXECs of a tile of a product.

    Parameters
    ----------
    fields:
        Fields of the EXEC of the product itself, for operands whose zero points are 0.
    constants:
        Address of the constants that corrections use; ignored if there are no corrections.
    """
    computed = stage.computed
    assert computed is not None
    if computed.selections:
        yield from _select_rows(stage, tile, fields, constants)
        return
    inside = exec_fields(stage, tile, config)["first_byte"]
    input_zero, weight_zero = computed.zero_points
    yield {
        **fields,
        "zero_points": int(any(computed.zero_points)),
        "pad_value": input_zero,
        "line": weight_zero & 255,
    }
    for each in computed.corrections:
        address = constants + each.offset
        changes = {"weights_fixed": 1, "weight_addr": address}
        if each.replaces_input:
            changes = _read_one_row(address, stage.input_layout.row_bytes, inside) | {"y_step": 0}
        yield {**fields, **changes, "accumulate": 1}


def _read_one_row(address: int, row_bytes: int, first_byte: int) -> _Fields:
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
    """Yield the fields of EXECs that add up selected rows of a tensor, one for each selection.

    The constants that select them are at address `constants`.
    """
    assert stage.computed is not None
    vector, width = fields["x_step"], fields["x_step"] * stage.grid.width
    for number, each in enumerate(stage.computed.selections):
        yield {
            **fields,
            "accumulate": int(number > 0),
            **_read_one_row(constants + each.offset, each.tiles * width, tile.first_x * vector),
            "kernel_rows": each.iterations,
            "kernel_cols": each.tiles,
            "kernel_col_step": width,
            "weight_addr": fields["weight_addr"] + each.first_tile * stage.computed.tile_bytes,
        }
