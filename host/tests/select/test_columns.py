"""Maps of one column are treated as one row, so depthwise windows can slide along them."""

import pytest

from matloom.arch.config import PRESETS
from matloom.select.sliding import LONGEST_LINE
from support.chain import Chain, exact_programs, executes

CONFIG = PRESETS["reference"]


def windows(shape, taps, stride):
    """Return a depthwise layer's EXECs; check its results against the interpreter."""
    chain = Chain(shape).convolve(32).halve(taps=taps, stride=stride)
    programs = exact_programs(chain.graph(), CONFIG, (None, 1))
    return [each for each in executes(programs[0]) if each.window]


@pytest.mark.parametrize(("taps", "stride"), [(3, 1), (9, 1), (4, 2)])
def test_columns_take_what_rows_take(taps, stride):
    down = windows((1, 40, 1, 16), (taps, 1), (stride, 1))
    along = windows((1, 1, 40, 16), (1, taps), (1, stride))
    streamed = [sum(each.width * each.height for each in found) for found in (down, along)]
    assert streamed[0] == streamed[1] > 0


@pytest.mark.parametrize(("width", "stride"), [(254, 1), (700, 1), (700, 2)])
def test_rows_longer_than_a_line_slide_in_parts(width, stride):
    found = windows((1, 1, width, 16), (1, 5), (1, stride))
    assert found
    made = sum(each.out_width * each.oc_blocks for each in found if not each.accumulate)
    assert made == -(-width // stride) * 2
    assert max(each.line for each in found) <= LONGEST_LINE
