"""Unpack: the parts of every number of every format represent that number."""

import math

import numpy as np
import pytest

from matloom.arch.floats import FLOAT_FORMATS, widen
from matloom_rtl.arith.unpack import OPERAND, Unpack
from matloom_rtl.testing import simulate


def meaning(parts):
    """Return the number that an unpacked operand's fields represent."""
    if parts.infinite:
        return math.nan if parts.zero else math.copysign(math.inf, -parts.sign)
    size = 0.0 if parts.zero else math.ldexp(1 + parts.fraction / 1024, parts.exponent - 127)
    return math.copysign(size, -1 if parts.sign else 1)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_parts(seed, name):
    index = list(FLOAT_FORMATS).index(name)
    form = FLOAT_FORMATS[name]
    patterns = np.arange(1 << form.bits)
    if form.bits > 8:
        patterns = np.random.default_rng(seed).choice(patterns, 1500, replace=False)
        patterns = np.concatenate([patterns, [0, 1, 1 << 15, form.above, form.above + 1]])
    dut = Unpack(tuple(FLOAT_FORMATS))

    async def bench(ctx):
        ctx.set(dut.format, index)
        for cycle in range(len(patterns) + Unpack.LATENCY):
            ctx.set(dut.bits, int(patterns[min(cycle, len(patterns) - 1)]))
            if cycle >= Unpack.LATENCY:
                pattern = patterns[cycle - Unpack.LATENCY]
                found = np.float32(meaning(OPERAND.from_bits(ctx.get(dut.o).as_bits())))
                wanted = np.uint32(widen(int(pattern), form)).view(np.float32)
                assert found.tobytes() == wanted.tobytes() or np.isnan(found) & np.isnan(wanted)
            await ctx.tick()

    simulate(dut, bench, cycles=len(patterns) + 10)
