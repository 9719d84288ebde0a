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


def test_positions_of_rows_of_odd_length_share_columns_across_rows():
    """Six rows of seven positions are three rows of fourteen, of which two share the columns."""
    graph = Chain((1, 6, 7, 8)).convolve(8).graph()
    program = exact_programs(graph, PRESETS["reference"], (None, 1))[0]
    assert sum(each.width * each.height for each in executes(program)) == 6 * 7 // 2


def test_rows_stay_where_a_kernel_sees_their_ends():
    graph = Chain((1, 6, 7, 8)).convolve(8, kernel=3).graph()
    program = exact_programs(graph, PRESETS["reference"], (None, 1))[0]
    assert sum(each.width * each.height for each in executes(program)) == 6 * 7
