"""Rotations by every amount, compared with slices of Python lists."""

import pytest
from amaranth.hdl import Module, Signal

from matloom_rtl.memory.rotate import rotate_left, rotate_right
from matloom_rtl.testing import simulate


@pytest.mark.parametrize("unit", [1, 8])
@pytest.mark.parametrize("groups", [1, 2, 16, 64])
def test_every_amount(groups, unit):
    value = Signal(groups * unit)
    amount = Signal(range(groups))
    left = Signal.like(value)
    right = Signal.like(value)
    m = Module()
    m.d.comb += [
        left.eq(rotate_left(m, value, amount, unit)),
        right.eq(rotate_right(m, value, amount, unit)),
    ]
    items = [(37 * index + 11) % (1 << unit) for index in range(groups)]

    def pack(numbers):
        return sum(number << unit * index for index, number in enumerate(numbers))

    async def check(ctx):
        ctx.set(value, pack(items))
        for by in range(groups):
            ctx.set(amount, by)
            assert ctx.get(left) == pack(items[groups - by :] + items[: groups - by])
            assert ctx.get(right) == pack(items[by:] + items[:by])

    simulate(m, check, cycles=1)
