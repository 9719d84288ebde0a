"""Where positions lie in blocks, and what of the blocks is padding."""

from itertools import product

import pytest

from matloom.select.space_to_depth import Blocks

PLANES, COLUMNS = 3, 4


def blocks(height, width, above=0, left=0):
    return Blocks(height=height, width=width, columns=COLUMNS, above=above, left=left, pad_value=0)


def places(layout, rows, positions):
    """Return the bytes of some rows and positions in all planes."""
    return {
        layout.first_byte(row, x, plane) + channel
        for row, x, plane, channel in product(rows, positions, range(PLANES), range(COLUMNS))
    }


def written(post):
    """Return the bytes that a POST from byte 0 on writes."""
    assert post["tail"] == COLUMNS
    return {
        row * post["dest_pitch"] + x * post["x_step"] + byte
        for row in range(post["height"])
        for x in range(post["width"])
        for byte in range(post["oc_blocks"] * COLUMNS)
    }


def test_the_layout_is_a_permutation():
    layout = blocks(6, 8)
    found = places(layout, range(6), range(8))
    assert found == set(range(6 * 8 * 12)) == set(range(PLANES * layout.plane_bytes))
    # The four positions of a block, from left to right and there downwards.
    corner = layout.first_byte(2, 4, 1)
    assert layout.first_byte(3, 4, 1) == corner + 4
    assert layout.first_byte(2, 5, 1) == corner + 8
    assert layout.first_byte(3, 5, 1) == corner + 12
    assert layout.first_byte(2, 6, 1) == corner + layout.block_bytes
    assert not list(layout.border(PLANES))


@pytest.mark.parametrize(("above", "left"), [(1, 1), (1, 0), (0, 1)])
@pytest.mark.parametrize(("height", "width"), [(6, 8), (5, 7), (2, 3)])
def test_a_border_moves_the_tensor_and_is_all_written(height, width, above, left):
    layout, wider = blocks(height, width, above, left), blocks(height + above, width + left)
    tensor = places(layout, range(height), range(width))
    assert tensor == places(wider, range(above, above + height), range(left, left + width))
    assert layout.plane_bytes == wider.plane_bytes
    border = set().union(*map(written, layout.border(PLANES)))
    assert not border & tensor
    assert border >= places(wider, range(height + above), range(width + left)) - tensor
    assert max(border) < PLANES * layout.plane_bytes
