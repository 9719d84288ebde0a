"""Registers: offsets, strobes, order of address and data, errors, write-one-to-clear."""

import dataclasses
import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS
from matloom.arch.csr import (
    COUNTERS,
    IDENTITY,
    REGISTERS,
    TIMESTAMPS_OFFSET,
    WINDOW_BYTES,
    Access,
    register,
)
from matloom.arch.isa import Region
from matloom_rtl.control.csr import ASKERS, Registers
from matloom_rtl.testing import simulate

CONFIG = PRESETS["nano"]
OKAY, ERROR = 0, 2
RW = [item for item in REGISTERS if item.access is Access.RW]
READ_ONLY = [item for item in REGISTERS if item.access is Access.R]
EVENT_COUNTERS = [name.upper() for name, _doc in COUNTERS[1:]]
CONSTANTS = {"ID": IDENTITY, "DIGEST": CONFIG.digest}


class Bench:
    """Register block with a bus initiator that can stall each channel."""

    def __init__(self, stall=0.0, seed=0, config=CONFIG):
        self.dut, self._stall, self._random = Registers(config), stall, random.Random(seed)

    async def pause(self, ctx):
        while self._random.random() < self._stall:
            await ctx.tick()

    async def send(self, ctx, channel, payload):
        ctx.set(channel.payload, payload)
        ctx.set(channel.valid, 1)
        await ctx.tick().until(channel.ready)
        ctx.set(channel.valid, 0)

    async def receive(self, ctx, channel):
        await self.pause(ctx)
        ctx.set(channel.ready, 1)
        (payload,) = await ctx.tick().sample(channel.payload).until(channel.valid)
        ctx.set(channel.ready, 0)
        await ctx.delay(1e-9)
        assert not ctx.get(channel.valid)
        return payload

    async def write(self, ctx, offset, value, strb=15, order="aw"):
        bus = self.dut.bus
        for channel in order:
            await self.pause(ctx)
            if channel == "a":
                await self.send(ctx, bus.aw, offset)
            else:
                await self.send(ctx, bus.w, {"data": value, "strb": strb})
        return await self.receive(ctx, bus.b)

    async def read(self, ctx, offset):
        await self.pause(ctx)
        await self.send(ctx, self.dut.bus.ar, offset)
        answer = await self.receive(ctx, self.dut.bus.r)
        return answer.data, answer.resp

    def run(self, bench, *, background=(), cycles=20000):
        return simulate(self.dut, bench, cycles=cycles, background=background)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("stall", [0.0, 0.6])
@pytest.mark.parametrize("order", ["aw", "wa"])
def test_read_write_registers_keep_what_strobes_select(seed, order, stall):
    bench = Bench(stall, seed)
    held = {item: item.reset for item in RW}
    chance = random.Random(seed)

    async def main(ctx):
        for item in RW:
            assert await bench.read(ctx, item.offset) == (item.reset, OKAY), item.name
        for _number in range(100):
            item, strb = chance.choice(RW), chance.choice((15, 15, chance.randrange(16)))
            value = chance.getrandbits(32)
            mask = sum(255 << 8 * byte for byte in range(4) if strb >> byte & 1)
            # Bits above the last field do not exist.
            mask &= (1 << item.width) - 1
            held[item] = held[item] & ~mask | value & mask
            assert await bench.write(ctx, item.offset, value, strb, order) == OKAY
            item = chance.choice(RW)
            assert await bench.read(ctx, item.offset) == (held[item], OKAY)
            assert ctx.get(getattr(bench.dut, item.name.lower())) == held[item]

    bench.run(main)


def test_bits_above_the_last_field_do_not_exist():
    assert [item.name for item in RW if item.width < 32] == ["IRQ_ENABLE"]
    bench, item = Bench(), register("IRQ_ENABLE")

    async def main(ctx):
        assert await bench.write(ctx, item.offset, 0xFFFF_FFFF) == OKAY
        assert await bench.read(ctx, item.offset) == (3, OKAY)

    bench.run(main)


def test_locked_registers_keep_their_values_while_running():
    bench = Bench()
    locked = [item for item in RW if item.locked]
    assert {item.name for item in locked} == {
        f"{region.name}_{kind}" for region in Region for kind in ("BASE", "BYTES")
    }

    async def main(ctx):
        for running, answer in ((0, OKAY), (1, ERROR), (0, OKAY)):
            ctx.set(bench.dut.running, running)
            for item in RW:
                before, _okay = await bench.read(ctx, item.offset)
                value = (before ^ 0xA5A5_A5A5) & ((1 << item.width) - 1)
                refused = item in locked and answer == ERROR
                assert await bench.write(ctx, item.offset, value) == (ERROR if refused else OKAY)
                kept = before if refused else value
                assert await bench.read(ctx, item.offset) == (kept, OKAY), item.name

    bench.run(main)


def test_read_only_registers_show_their_inputs_and_refuse_writes(seed):
    bench, chance = Bench(), random.Random(seed)

    async def main(ctx):
        for item in READ_ONLY:
            value = CONSTANTS.get(item.name, chance.getrandbits(32))
            if item.name in EVENT_COUNTERS:
                ctx.set(bench.dut.counter_value, value)
                ctx.set(bench.dut.counter_shown, 1)
            elif item.name not in CONSTANTS:
                ctx.set(getattr(bench.dut, item.name.lower()), value)
            assert await bench.write(ctx, item.offset, ~value & 0xFFFFFFFF) == ERROR
            assert await bench.read(ctx, item.offset) == (value, OKAY), item.name

    bench.run(main)


@pytest.mark.parametrize("turn", [1, 5, 21])
def test_a_counter_is_read_when_it_is_shown(turn):
    """A read of a counter waits until its value is shown; reads of other registers do not wait."""
    bench = Bench()

    async def show(ctx):
        cycle = 0
        while True:
            cycle += 1
            shown = ctx.get(bench.dut.counter) == cycle % turn
            ctx.set(bench.dut.counter_shown, shown)
            ctx.set(bench.dut.counter_value, 1000 + cycle % turn if shown else 0xBAD)
            await ctx.tick()

    async def main(ctx):
        for number in range(1, min(turn, len(COUNTERS))):
            name = EVENT_COUNTERS[number - 1]
            assert await bench.read(ctx, register(name).offset) == (1000 + number, OKAY)
            assert await bench.read(ctx, register("ID").offset) == (IDENTITY, OKAY)

    bench.run(main, background=[show])


def test_offsets_without_a_register(seed):
    bench = Bench()
    known = {item.offset for item in REGISTERS}
    timestamps = range(TIMESTAMPS_OFFSET, TIMESTAMPS_OFFSET + 4 * CONFIG.timestamps)
    unknown = [
        at for at in range(WINDOW_BYTES) if at not in known and (at not in timestamps or at % 4)
    ]
    beyond = [0x800, 0x808, 0xFFC, 0x800 + register("TIMEOUT").offset]
    beyond += [timestamps.start - 4, timestamps.stop, timestamps.stop + 4, 0x800 + timestamps.start]
    assert known.isdisjoint(beyond)
    chosen = random.Random(seed).sample(unknown, 60) + beyond

    async def main(ctx):
        ctx.set(bench.dut.counter_shown, 1)
        for offset in chosen:
            assert (await bench.read(ctx, offset))[1] == ERROR, hex(offset)
            assert await bench.write(ctx, offset, 0xFFFFFFFF) == ERROR
        for item in RW:
            assert await bench.read(ctx, item.offset) == (item.reset, OKAY)

    bench.run(main)


@pytest.mark.parametrize("time_limit", [0, 1])
def test_the_limit_is_there_where_it_is_built(time_limit):
    bench, item = (
        Bench(config=dataclasses.replace(CONFIG, time_limit=time_limit)),
        register("LIMIT"),
    )
    assert hasattr(bench.dut, "limit") == bool(time_limit)

    async def main(ctx):
        answer = OKAY if time_limit else ERROR
        assert (await bench.read(ctx, item.offset))[1] == answer
        assert await bench.write(ctx, item.offset, 0x1234_5678) == answer
        assert await bench.write(ctx, item.offset, 0xFFFF_FFFF, 4) == answer
        if time_limit:
            assert await bench.read(ctx, item.offset) == (0x12FF_5678, OKAY)
            assert ctx.get(bench.dut.limit) == 0x12FF_5678
        # The others are where they were.
        for other in RW:
            assert await bench.read(ctx, other.offset) == (other.reset, OKAY)

    bench.run(main)


def test_command_is_shown_for_one_cycle():
    bench, seen = Bench(), []

    async def monitor(ctx):
        while True:
            _clk, _rst, value = await ctx.tick().sample(bench.dut.control)
            seen.append(value)

    async def main(ctx):
        offset = register("CONTROL").offset
        await bench.write(ctx, offset, 2)
        await bench.write(ctx, offset, 1, strb=14)
        assert await bench.read(ctx, offset) == (0, OKAY)

    bench.run(main, background=[monitor])
    assert [value for value in seen if value] == [2]


def test_events_stay_until_cleared_and_win_over_a_clear():
    bench = Bench()
    offset = register("IRQ_STATUS").offset

    async def raise_events(ctx, events):
        ctx.set(bench.dut.irq_status_set, events)
        await ctx.tick()
        ctx.set(bench.dut.irq_status_set, 0)

    async def main(ctx):
        await raise_events(ctx, 1)
        await raise_events(ctx, 2)
        assert await bench.read(ctx, offset) == (3, OKAY)
        await bench.write(ctx, offset, 1)
        assert await bench.read(ctx, offset) == (2, OKAY)
        await bench.write(ctx, offset, 2, strb=2)
        assert await bench.read(ctx, offset) == (2, OKAY)
        ctx.set(bench.dut.irq_status_set, 1)
        await bench.write(ctx, offset, 3)
        ctx.set(bench.dut.irq_status_set, 0)
        assert await bench.read(ctx, offset) == (1, OKAY)

    bench.run(main)


@pytest.mark.parametrize("late", range(4))
def test_the_same_event_again_is_never_lost(late):
    """An event before the write is cleared; one in the same cycle or later stays."""
    bench, offset = Bench(), register("IRQ_STATUS").offset
    dut = bench.dut

    async def main(ctx):
        ctx.set(dut.irq_status_set, 1)
        await ctx.tick()
        ctx.set(dut.irq_status_set, 0)
        bus = dut.bus
        ctx.set(bus.aw.payload, offset)
        ctx.set(bus.w.payload, {"data": 1, "strb": 15})
        for channel in (bus.aw, bus.w):
            ctx.set(channel.valid, 1)
        shown = []
        for cycle in range(6):
            ctx.set(dut.irq_status_set, cycle == late)
            await ctx.tick()
            for channel in (bus.aw, bus.w):
                ctx.set(channel.valid, 0)
            shown.append(ctx.get(dut.irq_status))
        # The write takes effect in cycle 1.
        assert shown == [1, int(late == 1), *(int(1 <= late <= cycle) for cycle in range(2, 6))]

    simulate(dut, main, cycles=50)


def test_marks_are_read_through_their_port():
    bench = Bench()
    dut = bench.dut

    async def table(ctx):
        while True:
            _clk, _rst, slot = await ctx.tick().sample(dut.mark_slot)
            ctx.set(dut.mark_cycle, 1000 + slot)

    async def main(ctx):
        for slot in range(CONFIG.timestamps):
            offset = TIMESTAMPS_OFFSET + 4 * slot
            assert await bench.read(ctx, offset) == (1000 + slot, OKAY)
            assert await bench.write(ctx, offset, 1) == ERROR

    bench.run(main, background=[table])


@pytest.mark.parametrize("writes", [0, 1])
def test_cycles(writes):
    """A write is answered 2 cycles after address and data, a read 3 after its address.

    A write that takes effect in the cycle after a read's address delays the read by two.
    """
    bench = Bench()
    dut = bench.dut

    async def main(ctx):
        bus = dut.bus
        ctx.set(bus.aw.payload, register("TIMEOUT").offset)
        ctx.set(bus.ar.payload, register("ID").offset)
        for channel in (bus.aw, bus.w):
            ctx.set(channel.valid, writes)
        ctx.set(bus.ar.valid, 1)
        await ctx.tick()
        for channel in (bus.aw, bus.w, bus.ar):
            ctx.set(channel.valid, 0)
        shown = []
        for _cycle in range(5):
            shown.append((ctx.get(bus.b.valid), ctx.get(bus.r.valid)))
            await ctx.tick()
        # The responses wait, and nothing else is taken meanwhile.
        if writes:
            assert shown == [(0, 0), (1, 0), (1, 0), (1, 0), (1, 1)]
        else:
            assert shown == [(0, 0), (0, 0), (0, 1), (0, 1), (0, 1)]
        assert not ctx.get(bus.ar.ready)
        assert (ctx.get(bus.aw.ready), ctx.get(bus.w.ready)) == (not writes, not writes)

    bench.run(main)


def test_a_reset_restores_reset_values(seed):
    """After a reset and a write of some bytes, the other bytes of the word have reset values."""
    bench, chance = Bench(), random.Random(seed)
    reset = Signal()
    wrapped = ResetInserter(reset)(bench.dut)

    async def main(ctx):
        for item in RW:
            assert await bench.write(ctx, item.offset, chance.getrandbits(32)) == OKAY
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        for item in RW:
            assert await bench.read(ctx, item.offset) == (item.reset, OKAY), item.name
            assert await bench.write(ctx, item.offset, 0x5A5A_5A5A, strb=2) == OKAY
            mask = 0xFF00 & ((1 << item.width) - 1)
            value = item.reset & ~mask | 0x5A5A_5A5A & mask
            assert await bench.read(ctx, item.offset) == (value, OKAY), item.name
            assert ctx.get(getattr(bench.dut, item.name.lower())) == value

    simulate(wrapped, main, cycles=2000)


def test_regions_are_looked_up(seed):
    """A region's size comes in the same cycle, its base within two; both are 0 until written."""
    bench, chance = Bench(), random.Random(seed)
    dut = bench.dut
    reset = Signal()
    held = dict.fromkeys(((region, kind) for region in Region for kind in ("BASE", "BYTES")), 0)

    async def compare(ctx):
        for region in chance.sample(list(Region), len(Region)):
            ctx.set(dut.region, region)
            asked = [chance.choice(list(Region)) for _asker in range(ASKERS)]
            for number, other in enumerate(asked):
                ctx.set(dut.base_regions[number], other)
            assert ctx.get(dut.region_bytes) == held[region, "BYTES"]
            await ctx.tick().repeat(ASKERS)
            assert list(ctx.get(dut.bases)) == [held[other, "BASE"] for other in asked]

    async def main(ctx):
        for _round in range(3):
            await compare(ctx)
            for region, kind in chance.sample(list(held), 6):
                held[region, kind] = chance.getrandbits(32)
                offset = register(f"{region.name}_{kind}").offset
                assert await bench.write(ctx, offset, held[region, kind]) == OKAY
                await compare(ctx)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            held.update(dict.fromkeys(held, 0))

    simulate(ResetInserter(reset)(dut), main, cycles=2000)
