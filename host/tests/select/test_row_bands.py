"""Where two bands of rows lie, and that the POSTs which write them leave all of it right."""

import numpy as np
import pytest

from matloom.arch.isa import Source
from matloom.select.row_bands import Bands

PAD = -3


def bands(packed, *, height=6, width=4, channels=5):
    return Bands(height=height, width=width, channels=channels, packed=packed, pad_value=PAD)


def post(memory, fields, rows):
    """Let a POST write some rows of packed positions (rows, positions, bytes), or a copy."""
    for row in range(fields["height"]):
        for x in range(fields["width"]):
            at = fields["dest_addr"] + row * fields.get("dest_pitch", 0) + x * fields["x_step"]
            assert at >= 0
            if rows is None:
                source = fields["source_addr"] + x * fields["x_step"]
                values = memory[source : source + fields["tail"]].copy()
                values = np.clip(values, fields["clamp_low"], fields["clamp_high"])
            else:
                values = rows[row, x, : fields["tail"]]
            memory[at : at + fields["tail"]] = values
            assert at + fields["tail"] <= len(memory)


def written(layout, image, pieces):
    """Return the tensor as POSTs of rows in turn leave it, stored rows by positions by bytes."""
    memory = np.random.default_rng(1).integers(-128, 128, layout.size)
    for fields in layout.border():
        post(memory, fields, None)
    packed = image.reshape(layout.height, layout.width // layout.packed, -1)
    for first, end in pieces:
        for tail, byte in layout.writes():
            fields = {
                "height": end - first,
                "width": layout.width // layout.packed,
                "tail": tail,
                "x_step": layout.packed * layout.position_bytes,
                "dest_addr": layout.first_byte(first) + byte,
                "dest_pitch": layout.row_bytes,
            }
            post(memory, fields, packed[first:end])
        for fields in layout.copies(first, end):
            assert fields["source"] == Source.SPAD
            post(memory, fields, None)
    return memory.reshape(layout.rows, layout.width, layout.position_bytes)


@pytest.mark.parametrize("packed", [1, 2])
@pytest.mark.parametrize("pieces", [[(0, 3), (3, 6)], [(0, 2), (2, 3), (3, 4), (4, 6)]], ids=str)
def test_each_band_has_its_rows_and_those_around_them(packed, pieces):
    layout = bands(packed)
    image = np.random.default_rng(0).integers(-128, 128, (6, 4, 5))
    stored = written(layout, image, pieces)
    outside = np.full((1, 4, 5), PAD)
    around = np.concatenate([outside, image, outside])
    # A row of the image is one further down here; a band has 3, one above and one below.
    np.testing.assert_array_equal(stored[:, :, 5:10], around[0:5])
    np.testing.assert_array_equal(stored[:, :, 0:5], around[3:8])


def test_positions_are_no_further_apart_than_the_maker_needs():
    assert bands(1).position_bytes == 10
    assert bands(2).position_bytes == 15
    assert bands(2).size == 5 * 4 * 15
