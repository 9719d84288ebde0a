"""Sums and means over whole images by windows with weights of one."""

from operator import mul

import pytest

from matloom.arch.config import PRESETS
from matloom.ir.attributes import Pool2D, Reduce
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from support.chain import exact_programs, executes

SCALE = Quantisation(scale=(0.05,), zero_point=(-9,))


def over_image(op, shape):
    """Return MEAN, SUM or AVERAGE_POOL_2D over the whole image."""
    builder = GraphBuilder()
    x = builder.input("x", shape, "int8", SCALE)
    attributes = Reduce(axes=(1, 2), keep_dims=True)
    if op is Op.AVERAGE_POOL_2D:
        attributes = Pool2D(window=shape[1:3])
    output = SCALE if op is not Op.SUM else Quantisation(scale=(2.5,), zero_point=(3,))
    return builder.graph(builder.add(op, [x], attributes, quantisation=output))


@pytest.mark.parametrize("config", ["reference", "small", "nano"])
@pytest.mark.parametrize("op", [Op.MEAN, Op.SUM, Op.AVERAGE_POOL_2D])
@pytest.mark.parametrize(
    "shape", [(1, 6, 7, 16), (1, 1, 37, 24), (2, 5, 4, 3), (1, 17, 1, 40), (1, 12, 12, 64)], ids=str
)
@pytest.mark.fast_cases(8)
def test_results_are_the_interpreters(config, op, shape):
    assert list(exact_programs(over_image(op, shape), PRESETS[config], (None, 1, 2)))


@pytest.mark.parametrize(("channels", "windows"), [(16, True), (24, True), (64, False)])
def test_windows_serve_few_channels(channels, windows):
    """Single taps of 64 channels are four vectors, as many as an update of sums takes cycles."""
    graph = over_image(Op.MEAN, (1, 12, 12, channels))
    (program,) = exact_programs(graph, PRESETS["reference"], (None,))
    found = executes(program)
    assert {each.window for each in found} == {int(windows)}
    steps = [each.oc_blocks * each.kernel_rows * each.kernel_cols for each in found]
    vectors = [each.width * each.height for each in found]
    assert sum(map(mul, steps, vectors)) <= 12 * 12 * -(-channels // 16)
