"""Limits an EXEC to some steps of a reduction (split-K), and finds the input that it reads."""

from typing import NamedTuple

from matloom.select.stage import ArrayStage

_LOOPS = ("kernel_rows", "kernel_cols", "blocks")


class Box(NamedTuple):
    """Rectangle of rows and bytes of one image of an input.

    It has the rows from `low` to `high`, and the bytes from `left` to `right` of each (half open).
    """

    low: int
    high: int
    left: int
    right: int

    @property
    def size(self) -> int:
        """Number of bytes in the rectangle."""
        return (self.high - self.low) * (self.right - self.left)


def limit_steps(
    fields: dict[str, int], first_step: int, end_step: int, array_rows: int
) -> dict[str, int]:
    """Return EXEC fields restricted to reduction steps `first_step` to `end_step` (exclusive).

    Raises
    ------
    ValueError
        One EXEC cannot run these steps: they are neither whole kernel rows, nor whole columns of
        one row, nor blocks of one column.
    """
    by_row = fields["kernel_cols"] * fields["blocks"]
    if first_step == 0 and end_step == fields["kernel_rows"] * by_row:
        return fields
    by_column = fields["blocks"]
    count = end_step - first_step
    row, rest = divmod(first_step, by_row)
    column, block = divmod(rest, by_column)
    if count >= by_row:
        loops = (count // by_row, fields["kernel_cols"], fields["blocks"])
        possible = rest == count % by_row == 0
    elif count >= by_column:
        loops = (1, count // by_column, fields["blocks"])
        possible = block == count % by_column == 0 and rest + count <= by_row
    else:
        loops = (1, 1, count)
        possible = 0 < count <= by_column - block
    if not possible or row + loops[0] > fields["kernel_rows"]:
        raise ValueError(
            f"steps {first_step} to {end_step} must be whole kernel rows of {by_row} steps, "
            f"columns of {by_column} in one row, or blocks of one column"
        )
    return {
        **fields,
        **dict(zip(_LOOPS, loops, strict=True)),
        "first_row": fields["first_row"] + row * fields["kernel_row_step"],
        "first_byte": fields["first_byte"]
        + column * fields["kernel_col_step"]
        + block * array_rows,
    }


def _ranges(fields: dict[str, int], oc_blocks: int, array_rows: int) -> tuple[int, int, int, int]:
    """Return the rows, and the bytes of a row, that an EXEC addresses: two starts and ends.

    The tuple has first row, end row, first byte, end byte; ends are exclusive.
    """
    rows = (fields["height"] - 1) * fields["y_step"]
    rows += (fields["kernel_rows"] - 1) * fields["kernel_row_step"]
    length = (fields["width"] - 1) * fields["x_step"] + (oc_blocks - 1) * fields["oc_step"]
    length += (fields["kernel_cols"] - 1) * fields["kernel_col_step"]
    length += fields["blocks"] * array_rows
    top, left = fields["first_row"], fields["first_byte"]
    return top, top + rows + 1, left, left + length


def input_region(stage: ArrayStage, fields: dict[str, int], oc_blocks: int, array_rows: int) -> Box:
    """Return the part of the image that an EXEC reads; it has at least one byte."""
    top, bottom, left, right = _ranges(fields, oc_blocks, array_rows)
    rows, row_bytes = stage.input_layout.rows, stage.input_layout.row_bytes
    low = min(max(top, 0), rows - 1)
    start = min(max(left, 0), row_bytes - 1)
    return Box(
        low=low,
        high=max(low + 1, min(bottom, rows)),
        left=start,
        right=max(start + 1, min(right, row_bytes)),
    )


def read_bytes(fields: dict[str, int], array_rows: int) -> int:
    """Return the number of bytes that an EXEC of one block reads, with padding."""
    top, bottom, left, right = _ranges(fields, 1, array_rows)
    return (bottom - top) * (right - left)


def split_k_parts(
    stage: ArrayStage, *, most_steps: int, input_bytes: int, array_rows: int
) -> list[tuple[int, int]]:
    """Split a reduction's steps (weight tiles) into ranges, each of which one EXEC can run.

    A range has at most `most_steps` steps: whole kernel rows, columns of one row, or blocks of one
    column. It reads at most `input_bytes` for one output position, unless even a single step reads
    more.
    """
    whole = stage.loop_nest.fields((0, 1), (0, 1), 0)
    units = [
        whole["kernel_cols"] * whole["blocks"],
        whole["blocks"],
        1,
    ]
    limit = stage.loop_nest.steps
    for unit, outer in zip(units, (limit, units[0], units[1]), strict=True):
        for count in range(min(outer, most_steps) // unit, 0, -1):
            size = count * unit
            needed = read_bytes(limit_steps(whole, 0, size, array_rows), array_rows)
            if size <= most_steps and needed <= input_bytes:
                return _split_runs(limit, outer, size)
    return [(step, step + 1) for step in range(limit)]


def _split_runs(steps: int, outer: int, size: int) -> list[tuple[int, int]]:
    """Return ranges (half open) of `size` steps at most, none across multiples of `outer` steps."""
    return [
        (start + first, start + min(first + size, outer))
        for start in range(0, steps, outer)
        for first in range(0, outer, size)
    ]
