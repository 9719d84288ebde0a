"""Leading zeros and shifts of every width in use, compared with integers."""

import random

import pytest
from amaranth.hdl import Module, Signal

from matloom_rtl.arith.stages import leading_zeros, reduction_latency, shift_left, shift_right
from matloom_rtl.testing import simulate


@pytest.mark.parametrize("width", [2, 3, 11, 16, 28])
def test_against_integers(seed, width):
    generator = random.Random(seed)
    m = Module()
    value = Signal(width)
    count = Signal(5)
    zeros = Signal(5)
    left = Signal(width)
    right = Signal(width)
    m.d.comb += [
        zeros.eq(leading_zeros(value)),
        left.eq(shift_left(value, count)),
        right.eq(shift_right(value, count)),
    ]

    async def bench(ctx):
        for _number in range(200):
            given, places = generator.getrandbits(width) >> generator.randrange(width), 0
            places = generator.randrange(32)
            ctx.set(value, given)
            ctx.set(count, places)
            if given:
                assert ctx.get(zeros) == width - given.bit_length()
            assert ctx.get(left) == (given << places) % (1 << width)
            assert ctx.get(right) == given >> places | (given % (1 << places) != 0)
            await ctx.tick()

    simulate(m, bench, cycles=300)


def test_a_reduction_takes_a_cycle_for_each_level_of_pairs():
    counts = (1, 2, 3, 4, 5, 8, 9, 16)
    assert list(map(reduction_latency, counts)) == [0, 1, 2, 2, 3, 3, 4, 4]
