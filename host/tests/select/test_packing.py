"""Several output positions share the array's columns."""

from matloom.arch.config import PRESETS
from support.chain import Chain, exact_programs, executes


def test_positions_of_24_channels_fill_three_blocks_of_columns():
    graph = Chain((1, 8, 8, 3)).convolve(24, kernel=3, stride=2).graph()
    program = exact_programs(graph, PRESETS["reference"], (None, 1))[0]
    streamed = sum(
        each.width * each.height * each.oc_blocks * each.kernel_rows for each in executes(program)
    )
    # Of 4x4 positions, two by two, three kernel rows each; one by one, there would be 96.
    assert streamed == 4 * 2 * 3 * 3
