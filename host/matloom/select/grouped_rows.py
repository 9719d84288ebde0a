"""Loops of EXEC over an image with folded rows, each of which serves a group of output rows.

A row of such an image has the input rows of a group, side by side as channels
(`select.layout.row_folding`). All output rows of a group read the same vectors, but each has its
own weights.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from matloom.select.loop_nest import ExecLoops, Fields, Rows


@dataclass(frozen=True, kw_only=True)
class GroupedRows:
    """Loops of EXEC that make `group` output rows from each row that the loops `inner` read.

    `inner` has a single step. An output block has one weight tile for each row of a group. One EXEC
    computes a group: to EXEC, the rows are output blocks, so that sums lie in the order of rows.
    """

    inner: ExecLoops
    group: int

    weights_fixed: ClassVar[bool] = False
    slides: ClassVar[bool] = False
    is_long: ClassVar[bool] = False
    steps: ClassVar[int] = 1
    sums_per_output: ClassVar[int] = 1
    kernel_rows: ClassVar[int] = 1
    kernel_row_step: ClassVar[int] = 1
    y_step: ClassVar[int] = 1
    oc_step: ClassVar[int] = 0

    def vectors_per_step(self, height: int, width: int) -> int:
        """Return the number of vectors streamed for `height` rows of `width` outputs."""
        return height * width

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> Fields:
        """Return the fields of the EXEC that makes `rows` and `columns` of outputs (half open).

        `block` is the first output block. `rows` counts output rows; `height` in the result counts
        groups.
        """
        groups = rows[0] // self.group, -(-rows[1] // self.group)
        return self.inner.fields(groups, columns, block)

    def executes(self, fields: Fields, rows: Rows, block_bytes: int) -> Iterator[Fields]:
        """Yield the fields of an EXEC for each group of rows and output block of a tile.

        Parameters are as for `ExecLoops.executes`.
        """
        first, tile_bytes = rows[0] // self.group, block_bytes // self.group
        for block, number in itertools.product(range(fields["oc_blocks"]), range(fields["height"])):
            start = (first + number) * self.group
            low, high = max(rows[0], start), min(rows[1], start + self.group)
            tile, sums = (
                block * self.group + low - start,
                block * (rows[1] - rows[0]) + low - rows[0],
            )
            yield {
                **fields,
                "height": 1,
                "oc_blocks": high - low,
                "first_row": fields["first_row"] + number,
                "weight_addr": fields["weight_addr"] + tile * tile_bytes,
                "acc_addr": fields["acc_addr"] + sums * fields["width"],
            }
