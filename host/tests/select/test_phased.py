"""Depthwise kernels with spaced taps: dilated ones, and wide ones of stride 2 and 3."""

import dataclasses

import pytest

from matloom.arch.config import PRESETS
from support.chain import exact_programs, executes
from support.depthwise import depthwise

REFERENCE, NANO = PRESETS["reference"], PRESETS["nano"]


def windows(graph, config=REFERENCE):
    """Return a network's EXECs, which must all slide; check its results."""
    (program, *_others) = exact_programs(graph, config, (None, 1, 2))
    found = executes(program)
    assert all(each.window for each in found)
    return found


@pytest.mark.parametrize("same", [True, False], ids=["same", "valid"])
@pytest.mark.parametrize("channels", [8, 40])
@pytest.mark.parametrize(
    ("kernel", "dilation"),
    [((3, 3), (2, 2)), ((3, 3), (1, 3)), ((3, 3), (4, 1)), ((5, 2), (2, 3)), ((1, 4), (1, 2))],
)
@pytest.mark.fast_cases(1)
def test_dilated_kernels_are_plain_ones_on_each_phase(kernel, dilation, channels, same):
    windows(depthwise((13, 16, channels), kernel, dilation=dilation, same=same))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("same", [True, False], ids=["same", "valid"])
@pytest.mark.parametrize(
    ("kernel", "stride"),
    [((5, 5), (2, 2)), ((7, 7), (2, 2)), ((6, 4), (2, 2)), ((9, 5), (3, 2)), ((5, 1), (3, 1))],
)
def test_wide_kernels_of_a_stride_read_phases(kernel, stride, same):
    windows(depthwise((19, 17, 24), kernel, stride=stride, same=same))


@pytest.mark.parametrize("dilation", [(2, 2), (3, 1)])
def test_dilated_kernels_on_another_array(dilation):
    exact_programs(depthwise((9, 12, 6), (3, 3), dilation=dilation), NANO, (None, 1, 2))


def steps_of(found):
    """Return the windows of all outputs; a tile streams two extra lines, and two per phase."""
    assert {(each.height - each.out_height, each.width - each.out_width) for each in found} == {
        (2, 2)
    }
    return sum(
        each.out_width * each.out_height * each.oc_blocks * each.kernel_rows * each.kernel_cols
        for each in found
    )


def test_windows_of_dilated_kernels():
    found = windows(depthwise((28, 28, 32), (3, 3), dilation=(2, 2)))
    assert steps_of(found) == 2 * 28 * 28 * 2


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("taps", "count"), [(5, 4), (6, 4), (7, 9)])
def test_windows_of_wide_kernels(taps, count):
    """Five taps become two windows of three in each direction; one has a zero weight."""
    plain = dataclasses.replace(REFERENCE, windows=1)
    found = windows(depthwise((28, 28, 32), (taps, taps), stride=(2, 2)), plain)
    assert steps_of(found) == 2 * 14 * 14 * 2 * count


def test_dilation_as_wide_as_the_map_is_taken_tap_by_tap():
    """A 3x3 window would stream nine vectors for the single output of each phase."""
    graph = depthwise((4, 4, 32), (3, 3), dilation=(4, 4))
    (program,) = exact_programs(graph, REFERENCE, (None,))
    assert not any(each.window for each in executes(program))
