"""Pieces of wide paths: choices against Python lists, picking, and what passes."""

import random

import pytest
from amaranth.hdl import Const, Module, Signal

from matloom_rtl.memory.wide import bytes_of, choices, passing, pick, when
from matloom_rtl.testing import simulate


@pytest.mark.parametrize("firsts", [[0] * 6, [0, 0, 1, 1, 3, 3], [2, 2, 2, 2, 2, 2]])
def test_choices(firsts):
    m, which, ones, zeros = Module(), Signal(6), Signal(4), Signal(4)
    made = choices(m, which, ones, zeros, firsts)
    draw = random.Random(1)

    async def drive(ctx):
        for _number in range(40):
            values = [draw.getrandbits(len(signal)) for signal in (which, ones, zeros)]
            for signal, value in zip((which, ones, zeros), values, strict=True):
                ctx.set(signal, value)
            await ctx.tick()
            for index, first in enumerate(firsts):
                expected = values[1] if values[0] >> index & 1 else values[2]
                assert ctx.get(made[index]) == expected >> first

    simulate(m, drive, cycles=50)


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_pick(count):
    m, choice, found = Module(), Signal(3), Signal(8)
    m.d.comb += found.eq(pick([Const(17 * index, 8) for index in range(count)], choice))

    async def check(ctx):
        for number in range(count):
            ctx.set(choice, number)
            assert ctx.get(found) == 17 * number

    simulate(m, check, cycles=1)


@pytest.mark.parametrize("apart", [False, True])
def test_registers_hold_while_nothing_passes(apart):
    m, valid, value = Module(), Signal(), Signal(8)
    registers = bytes_of("registers", 2, apart=apart)
    (passed,) = passing(m, valid, 1)
    with when(m, passed):
        m.d.sync += [register.eq(value) for register in registers]

    async def drive(ctx):
        ctx.set(valid, 1)
        await ctx.tick()
        ctx.set(valid, 0)
        ctx.set(value, 7)
        await ctx.tick()
        ctx.set(value, 9)
        await ctx.tick().repeat(2)
        assert [ctx.get(register) for register in registers] == [7, 7]

    simulate(m, drive, cycles=8)


def test_a_path_that_never_rests():
    m, value, register = Module(), Signal(8), Signal(8)
    assert passing(m, None, 3) == [None] * 3
    with when(m, None):
        m.d.sync += register.eq(value)

    async def drive(ctx):
        ctx.set(value, 5)
        await ctx.tick()
        assert ctx.get(register) == 5

    simulate(m, drive, cycles=4)
