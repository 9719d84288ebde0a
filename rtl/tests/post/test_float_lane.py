"""FloatLane, compared with the number rules: values of all formats, biases, limits."""

import numpy as np
import pytest

from matloom.arch.floats import FLOAT_FORMATS, add, limit, narrow, widen
from matloom_rtl.post.float_lane import FloatLane
from matloom_rtl.testing import simulate

FORMATS = tuple(FLOAT_FORMATS)
INFINITE, SIX, NOTHING = 0x7F800000, 0x40C00000, 1 << 31


def draw(rng, count, form):
    """Return values and biases of similar size, so that sums are not just copies."""
    patterns = rng.integers(0, 1 << form.bits, count)
    wide = np.asarray(widen(patterns, form))
    bias = wide ^ rng.integers(0, 1 << 24, count) ^ (1 << 31) * rng.integers(0, 2, count)
    bias = np.where(rng.random(count) < 0.2, NOTHING, bias)
    # A sum of zero, which is one of the limits.
    patterns[0] = wide[0] = bias[0] = 0
    return patterns, wide, bias


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "limits",
    [(INFINITE | 1 << 31, INFINITE), (0, SIX), (SIX, 0)],
    ids=["all", "relu6", "crossed"],
)
@pytest.mark.parametrize("of_format", [0, 1])
def test_results(seed, name, limits, of_format):
    form, rng = FLOAT_FORMATS[name], np.random.default_rng(seed)
    patterns, wide, bias = draw(rng, 200, form)
    values = patterns if of_format else wide
    results = np.asarray(limit(add(wide, bias), *limits))
    elements = np.asarray(narrow(results, form))
    dut, latency = FloatLane(FORMATS), FloatLane.LATENCY
    assert latency == 15

    async def bench(ctx):
        ctx.set(dut.narrow, of_format)
        ctx.set(dut.format, FORMATS.index(name))
        ctx.set(dut.low, limits[0])
        ctx.set(dut.high, limits[1])
        for cycle in range(len(values) + latency):
            now = min(cycle, len(values) - 1)
            ctx.set(dut.value, int(values[now]))
            ctx.set(dut.bias, int(bias[now]))
            if cycle >= latency:
                made = cycle - latency
                found = ctx.get(dut.result), ctx.get(dut.element)
                assert found == (results[made], elements[made]), hex(values[made])
            await ctx.tick()

    simulate(dut, bench, cycles=len(values) + latency + 1)
