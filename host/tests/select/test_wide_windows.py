"""Depthwise kernels on wider windows: exact, with as few steps as their shape allows."""

import dataclasses

import pytest

from matloom.arch.config import PRESETS, Config
from support.chain import exact_programs, executes
from support.depthwise import depthwise

WIDE = dataclasses.replace(PRESETS["reference"], windows=2)
#: Lines of 8 channels, without blocks of 2 x 2 positions.
NARROW = Config(columns=8, lanes=4, weight_rows=2, acc_bytes=16384, windows=2)


def windows(graph, config=WIDE):
    """Return a network's EXECs, which must all slide; check its results."""
    (program, *_others) = exact_programs(graph, config, (None, 1, 2))
    found = executes(program)
    assert all(each.window for each in found)
    return found


@pytest.mark.parametrize("same", [True, False], ids=["same", "valid"])
@pytest.mark.parametrize(
    ("kernel", "shape", "steps"),
    [
        ((3, 3), 0, 1),
        ((5, 5), 2, 2),
        ((7, 7), 3, 4),
        ((1, 9), 1, 1),
        ((1, 15), 1, 1),
        ((2, 7), 3, 1),
        ((3, 4), 2, 1),
        ((6, 10), 2, 4),
    ],
)
@pytest.mark.fast_cases(5)
def test_kernels_take_few_steps(kernel, shape, steps, same):
    found = windows(depthwise((17, 19, 24), kernel, same=same))
    assert {each.window_shape for each in found} == {shape}
    assert {each.kernel_rows * each.kernel_cols for each in found} == {steps}


@pytest.mark.parametrize("same", [True, False], ids=["same", "valid"])
@pytest.mark.parametrize(
    ("kernel", "stride"),
    [((5, 5), (2, 2)), ((7, 7), (2, 2)), ((5, 7), (1, 2)), ((9, 9), (3, 3)), ((1, 9), (1, 2))],
)
@pytest.mark.fast_cases(4)
def test_strided_kernels_skip_outputs_or_vectors(kernel, stride, same):
    windows(depthwise((23, 26, 24), kernel, stride=stride, same=same))


@pytest.mark.parametrize("dilation", [(2, 2), (1, 2)])
def test_dilated_kernels(dilation):
    windows(depthwise((21, 22, 8), (5, 5), dilation=dilation))


@pytest.mark.parametrize("kernel", [(5, 5), (7, 7), (1, 13)])
def test_kernels_on_another_array(kernel):
    found = windows(depthwise((12, 14, 20), kernel), NARROW)
    assert all(each.window_shape for each in found)


def test_a_column_is_a_line():
    found = windows(depthwise((40, 1, 16), (9, 1)))
    assert {(each.window_shape, each.kernel_rows * each.kernel_cols) for each in found} == {(1, 1)}


def test_arrays_of_fewer_rows_have_the_plain_shape():
    config = dataclasses.replace(PRESETS["small"], windows=2)
    assert {each.window_shape for each in windows(depthwise((9, 9, 8), (5, 5)), config)} == {0}
