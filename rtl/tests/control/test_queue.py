"""UnitQueue: order, gates, the modular order of numbers, cycles, stalls, reset midway."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS
from matloom.arch.isa import UNITS, Opcode
from matloom_rtl.control.layouts import AHEAD, count_bits
from matloom_rtl.control.queue import UnitQueue
from matloom_rtl.testing import simulate

CONFIG = PRESETS["small"]
NUMBERS = 1 << count_bits(CONFIG)


def entry(number, targets):
    """An instruction that waits for `targets`, None where it waits for nothing."""
    return {
        "body": {"timestamp": number % 256, "spad_addr": number},
        "waits": sum(1 << index for index, target in enumerate(targets) if target is not None),
        "targets": [(target or 0) % NUMBERS for target in targets],
    }


def reached(completed, targets):
    pairs = zip(completed, targets, strict=True)
    return [target is None or count > target for count, target in pairs]


async def put(ctx, dut, item):
    ctx.set(dut.i.payload, item)
    ctx.set(dut.i.valid, 1)
    await ctx.tick().until(dut.i.ready)
    ctx.set(dut.i.valid, 0)


@pytest.mark.parametrize(("gaps", "stalls"), [(0, 0), (0.6, 0), (0, 0.6), (0.4, 0.4)])
@pytest.mark.parametrize("start", [0, NUMBERS - 40])
def test_instructions_leave_in_order_when_their_targets_are_reached(seed, start, gaps, stalls):
    dut, chance = UnitQueue(CONFIG, Opcode.LOAD), random.Random(seed)
    completed = [start] * len(UNITS)
    wanted = []
    for number in range(80):
        targets = [chance.choice((None, start + number)) for _unit in UNITS]
        wanted.append((number, targets))

    async def feed(ctx):
        for number, targets in wanted:
            while chance.random() < gaps:
                await ctx.tick()
            await put(ctx, dut, entry(number, targets))

    async def complete(ctx):
        while True:
            unit = chance.randrange(len(UNITS))
            # No unit is far ahead of what has been issued.
            if completed[unit] < start + 80:
                completed[unit] += 1
            ctx.set(dut.completed[unit], completed[unit] % NUMBERS)
            await ctx.tick()

    async def take(ctx):
        ctx.set(dut.completed, [start % NUMBERS] * len(UNITS))
        for number, targets in wanted:
            while chance.random() < stalls:
                await ctx.tick()
            ctx.set(dut.o.ready, 1)
            _clk, _rst, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            while not valid:
                _clk, _rst, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            ctx.set(dut.o.ready, 0)
            assert payload.spad_addr == number
            assert all(reached(completed, targets))

    simulate(dut, feed, take, cycles=3000, background=[complete])


def test_head_of_an_ungated_queue_is_shown_with_what_is_met():
    dut = UnitQueue(CONFIG, Opcode.EXEC, gated=False)
    targets = [4, None, 6, 8]

    async def main(ctx):
        await put(ctx, dut, entry(0, targets) | {"body": {"weight_addr": 77}})
        await ctx.tick().repeat(2)
        for completed in ([0, 0, 0, 0], [4, 9, 7, 8], [5, 9, 7, 8], [5, 9, 7, 9]):
            ctx.set(dut.completed, completed)
            await ctx.tick().repeat(2)
            assert ctx.get(dut.o.valid)
            assert ctx.get(dut.o.payload.weight_addr) == 77
            met = [bool(ctx.get(dut.met) >> index & 1) for index in range(len(UNITS))]
            assert met == reached(completed, targets)
        assert all(met)

    simulate(dut, main, cycles=100)


def test_depth_and_cycles():
    dut, free = UnitQueue(CONFIG, Opcode.STORE), (None,) * 4

    async def main(ctx):
        taken = 0
        for number in range(10):
            ctx.set(dut.i.payload, entry(number, free))
            ctx.set(dut.i.valid, 1)
            taken += ctx.get(dut.i.ready)
            await ctx.tick()
        assert taken == CONFIG.queue_depth
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.o.ready, 1)
        shown = []
        while len(shown) < 3 * CONFIG.queue_depth:
            shown.append((ctx.get(dut.o.valid), ctx.get(dut.o.payload.spad_addr)))
            await ctx.tick()
        assert shown[::3] == [(1, number) for number in range(CONFIG.queue_depth)]
        assert not any(valid for valid, _number in shown[1::3] + shown[2::3])
        await ctx.tick()
        assert not ctx.get(dut.o.valid)

    simulate(dut, main, cycles=100)


def test_an_instruction_that_stays_grows_old():
    dut = UnitQueue(CONFIG, Opcode.STORE)

    async def main(ctx):
        await put(ctx, dut, entry(0, (0, None, None, None)))
        await put(ctx, dut, entry(0, (None,) * 4))
        await ctx.tick().repeat(3)
        ctx.set(dut.issued, 1)
        for _number in range(AHEAD):
            assert not ctx.get(dut.old)
            await ctx.tick()
        assert ctx.get(dut.old)
        # One leaves, and the next is as young as the first was.
        ctx.set(dut.issued, 0)
        ctx.set(dut.completed[0], 1)
        ctx.set(dut.o.ready, 1)
        await ctx.tick().until(dut.o.valid)
        await ctx.tick()
        assert not ctx.get(dut.old)

    simulate(dut, main, cycles=100)


def test_reset_midway_empties_it():
    dut, reset = UnitQueue(CONFIG, Opcode.LOAD), Signal()

    async def main(ctx):
        for _number in range(3):
            await put(ctx, dut, entry(0, (None,) * 4))
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        assert not ctx.get(dut.o.valid)
        await put(ctx, dut, entry(9, (0, None, None, None)))
        await ctx.tick().repeat(5)
        assert not ctx.get(dut.o.valid)
        ctx.set(dut.completed[0], 1)
        ctx.set(dut.o.ready, 1)
        (payload,) = await ctx.tick().sample(dut.o.payload).until(dut.o.valid)
        assert payload.spad_addr == 9

    simulate(ResetInserter(reset)(dut), main, cycles=100)
