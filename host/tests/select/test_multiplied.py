"""Depthwise multipliers: channels are repeated, so that windows slide over them."""

from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS
from support.chain import exact_programs, executes
from support.depthwise import depthwise

CONFIG = PRESETS["reference"]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "multiplier"),
    [((9, 10, 32), (3, 3), (1, 1), 6), ((8, 9, 48), (3, 5), (2, 2), 2)],
)
def test_windows_slide_over_repeated_channels(size, kernel, stride, multiplier):
    graph = depthwise(size, kernel, stride=stride, multiplier=multiplier)
    (found, *_others) = exact_programs(graph, CONFIG, (None, 3))
    height, width, _depth = size
    blocks = -(-size[2] * multiplier // CONFIG.columns)
    slid = [each for each in executes(found) if each.window]
    assert sum(each.out_height * each.out_width * each.oc_blocks for each in slid) == (
        2 * blocks * -(-height // stride[0]) * -(-width // stride[1])
    )


def test_taps_one_by_one_where_copies_do_not_fit():
    graph = depthwise((12, 12, 32), (3, 3), multiplier=6)
    small = replace(CONFIG, spad_bytes=65536, spad_banks=4)
    (found,) = exact_programs(graph, small, (None,))
    assert not any(each.window for each in executes(found))
