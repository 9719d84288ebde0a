"""Panels of weights: what LOADs bring, byte for byte."""

import numpy as np
import pytest

from matloom.select.layout.base import Transfer
from matloom.select.layout.panels import Panels


def loaded(panels, source, start, size):
    """Return the bytes that LOADs bring for a part of the panels, and which they write."""
    chip, written = np.zeros(panels.size, np.uint8), np.zeros(panels.size, bool)
    transfer = Transfer(start=start, size=size, runs=1, step=0, address=start, pitch=size)
    for fields in panels.loads(transfer):
        for plane, row in np.ndindex(fields["planes"], fields["rows"]):
            to = fields["spad_addr"] + plane * fields["spad_plane_step"]
            to += row * fields["spad_row_step"]
            of = fields["dram_offset"] + plane * fields["dram_plane_step"]
            of += row * fields["dram_row_step"]
            span = slice(to, to + fields["row_bytes"])
            chip[span], written[span] = source[of : of + fields["row_bytes"]], True
    return chip, written


@pytest.mark.parametrize(("first", "columns"), [(0, 10), (0, 8), (4, 6), (8, 2)])
def test_loads_make_panels(first, columns):
    matrices = np.arange(1, 2 * 6 * 10 + 1, dtype=np.uint8).reshape(2, 6, 10)
    panels = Panels(
        **{"images": 2, "inner": 6, "columns": columns, "depth": 8, "width": 4},
        **{"source": "b", "row_bytes": 10, "first_column": first},
    )
    wanted = np.zeros((2, panels.blocks, 8, 4), np.uint8)
    for block in range(panels.blocks):
        part = matrices[:, :, first + 4 * block : first + min(4 * block + 4, columns)]
        wanted[:, block, :6, : part.shape[2]] = part
    chip, written = loaded(panels, matrices.reshape(-1), 0, panels.size)
    np.testing.assert_array_equal(chip, wanted.reshape(-1))
    np.testing.assert_array_equal(written, wanted.reshape(-1) > 0)
    # One panel after another, as tiles want them.
    for start in range(0, panels.size, panels.block_bytes):
        chip, _written = loaded(panels, matrices.reshape(-1), start, panels.block_bytes)
        span = slice(start, start + panels.block_bytes)
        np.testing.assert_array_equal(chip[span], wanted.reshape(-1)[span])
