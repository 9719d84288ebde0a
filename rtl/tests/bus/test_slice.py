"""The slice: order in each channel, cycles, stalls of one channel, and a reset."""

import random

import pytest
from amaranth.hdl import ResetInserter, Shape, Signal

from matloom_rtl.bus.slice import BusSlice
from matloom_rtl.testing import simulate

BUS_BITS = 64
CHANNELS = ("ar", "r", "aw", "w", "b")


def sides(dut, name):
    """Return the input and the output side of a channel."""
    read = name in ("ar", "r")
    bus, memory = (dut.bus_read, dut.axi_read) if read else (dut.bus_write, dut.axi_write)
    bus, memory = getattr(bus, name), getattr(memory, name)
    return (memory, bus) if name in ("r", "b") else (bus, memory)


def items_of(stream, count, generator):
    """Return random items that use every bit of a payload."""
    return [generator.getrandbits(Shape.cast(stream.payload.shape()).width) for _ in range(count)]


def feed(source, items, gaps, generator):
    async def bench(ctx):
        for item in items:
            while generator.random() < gaps:
                await ctx.tick()
            ctx.set(source.payload.as_value(), item)
            ctx.set(source.valid, 1)
            await ctx.tick().until(source.ready)
            ctx.set(source.valid, 0)

    return bench


def drain(target, items, refuse, generator, ends):
    async def bench(ctx):
        cycle = 0
        for item in items:
            while True:
                ready = generator.random() >= refuse
                ctx.set(target.ready, ready)
                _clk, _rst, valid, payload = await ctx.tick().sample(
                    target.valid, target.payload.as_value()
                )
                cycle += 1
                if valid and ready:
                    break
            assert payload == item
        ends.append(cycle)
        ctx.set(target.ready, 0)

    return bench


def run(names, *, count=200, gaps=0.0, refuse=0.0, seed=0):
    """Pass items through the given channels; return the cycles of each."""
    dut, ends = BusSlice(BUS_BITS), []
    benches = []
    for index, name in enumerate(names):
        generator = random.Random(seed + index)
        source, target = sides(dut, name)
        items = items_of(source, count, generator)
        benches.append(feed(source, items, gaps, random.Random(seed + 10 + index)))
        benches.append(drain(target, items, refuse, random.Random(seed + 20 + index), ends))
    simulate(dut, *benches, cycles=40 * count)
    assert len(ends) == len(names)
    return ends


def test_an_item_a_cycle_on_each_channel():
    assert run(CHANNELS) == [201] * 5


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(("gaps", "refuse"), [(0.6, 0), (0, 0.6), (0.5, 0.5)])
def test_stalls(seed, gaps, refuse):
    run(CHANNELS, gaps=gaps, refuse=refuse, seed=seed)


@pytest.mark.parametrize("name", CHANNELS)
def test_a_channel_waits_for_no_other(name):
    """A channel works while all others are idle and their outputs are refused."""
    assert run([name]) == [201]


def test_two_items_wait_on_a_channel_and_a_reset_forgets_them():
    reset = Signal()
    dut = BusSlice(BUS_BITS)
    inserted = ResetInserter(reset)(dut)

    async def main(ctx):
        for name in CHANNELS:
            source, _target = sides(dut, name)
            ctx.set(source.valid, 1)
        taken = dict.fromkeys(CHANNELS, 0)
        for _ in range(5):
            for name in CHANNELS:
                taken[name] += ctx.get(sides(dut, name)[0].ready)
            await ctx.tick()
        assert taken == dict.fromkeys(CHANNELS, 2)
        for name in CHANNELS:
            source, target = sides(dut, name)
            assert ctx.get(target.valid)
            ctx.set(source.valid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        for _ in range(3):
            for name in CHANNELS:
                source, target = sides(dut, name)
                assert not ctx.get(target.valid)
                assert ctx.get(source.ready)
            await ctx.tick()

    simulate(inserted, main, cycles=50)
