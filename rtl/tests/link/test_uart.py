"""Receiver and transmitter: compared with bits written out, then connected; cycles, resets."""

import random

import pytest
from amaranth.hdl import Module, ResetInserter, Signal

from matloom_rtl.link.receiver import Receiver
from matloom_rtl.link.transmitter import Transmitter
from matloom_rtl.testing import simulate


def bits_of(byte, stop=1):
    return [0, *(byte >> k & 1 for k in range(8)), stop]


def received(divisor, levels, extra=40):
    """Return the bytes received, and those dropped, from the line's level in each cycle."""
    dut, found, broken = Receiver(divisor), [], []

    async def drive(ctx):
        for level in [*levels, *[1] * extra]:
            ctx.set(dut.rx, level)
            await ctx.tick()

    async def listen(ctx):
        cycle = 0
        while True:
            _, _, valid, data, bad = await ctx.tick().sample(dut.valid, dut.data, dut.broken)
            cycle += 1
            if valid:
                found.append((data, cycle))
            broken.extend([cycle] * bad)

    simulate(dut, drive, cycles=len(levels) + extra + 10, background=[listen])
    return found, broken


def line(divisor, bits):
    return [bit for bit in bits for _ in range(divisor)]


@pytest.mark.parametrize("divisor", [2, 3, 8, 18])
def test_bytes_are_received(divisor):
    data = [0x00, 0xFF, 0xA5, 0x5A, 0x01, 0x80]
    found, broken = received(
        divisor, line(divisor, [bit for byte in data for bit in bits_of(byte)])
    )
    assert [byte for byte, _ in found] == data
    assert broken == []
    # Ten bits apart, and three cycles after the middle of the stop bit.
    cycles = [cycle for _, cycle in found]
    assert cycles == [10 * divisor * k + 9 * divisor + divisor // 2 + 4 for k in range(len(data))]


@pytest.mark.parametrize("divisor", [2, 3, 4])
def test_bytes_are_received_after_any_pause(divisor):
    data, levels, starts = [0x5A, 0xA5, 0x00, 0x7E, 0xFF], [], []
    for pause, byte in enumerate(data, 1):
        levels += [1] * pause
        starts.append(len(levels))
        levels += line(divisor, bits_of(byte))
    found, broken = received(divisor, levels)
    assert broken == []
    after = 9 * divisor + divisor // 2 + 4
    assert found == [(byte, start + after) for byte, start in zip(data, starts, strict=True)]


@pytest.mark.parametrize("scale", [0.98, 1.02])
def test_a_clock_that_is_off(scale):
    data = random.Random(1).randbytes(10)
    bits = [1, *(bit for byte in data for bit in bits_of(byte))]
    count = int(len(bits) * 18 * scale)
    levels = [bits[min(int(cycle / (18 * scale)), len(bits) - 1)] for cycle in range(count)]
    found, broken = received(18, levels)
    assert bytes(byte for byte, _ in found) == data
    assert broken == []


def test_a_missing_stop_bit_and_a_break_drop_one_byte():
    bits = [*bits_of(0x31, stop=0), *[0] * 30, 1, *bits_of(0x32), *bits_of(0x33)]
    found, broken = received(8, line(8, bits))
    assert [byte for byte, _ in found] == [0x32, 0x33]
    assert len(broken) == 1


def test_a_glitch_is_not_a_start_bit():
    found, broken = received(8, [1] * 5 + [0] * 3 + [1] * 90 + line(8, bits_of(0x44)))
    assert [byte for byte, _ in found] == [0x44]
    assert broken == []


class Sending:
    """A transmitter that gets bytes at random times, and its line."""

    def __init__(self, divisor, data, idle=0.0):
        self.reset = Signal()
        self.dut = Transmitter(divisor)
        self.data, self.idle, self.levels = data, idle, []
        self.random = random.Random(2)

    async def give(self, ctx):
        for byte in self.data:
            while self.random.random() < self.idle:
                await ctx.tick()
            ctx.set(self.dut.i.payload, byte)
            ctx.set(self.dut.i.valid, 1)
            await ctx.tick().until(self.dut.i.ready)
            ctx.set(self.dut.i.valid, 0)
        while not ctx.get(self.dut.i.ready):
            await ctx.tick()
        await ctx.tick()

    async def listen(self, ctx):
        while True:
            _, _, level = await ctx.tick().sample(self.dut.tx)
            self.levels.append(level)


@pytest.mark.parametrize("divisor", [2, 18])
def test_bytes_are_sent_without_gaps(divisor):
    bench = Sending(divisor, b"\x00\xff\x5a")
    simulate(bench.dut, bench.give, cycles=1000, background=[bench.listen])
    bits = [bit for byte in bench.data for bit in bits_of(byte)]
    expected = [1, *line(divisor, bits)]
    assert bench.levels[: len(expected)] == expected
    assert all(bench.levels[len(expected) :])


def test_late_bytes():
    bench = Sending(3, random.Random(3).randbytes(20), idle=0.97)
    simulate(bench.dut, bench.give, cycles=4000, background=[bench.listen])
    found, broken = received(3, bench.levels)
    assert bytes(byte for byte, _ in found) == bench.data
    assert broken == []


def test_both_and_a_reset_midway():
    reset = Signal()
    m = Module()
    m.submodules.t = sender = Transmitter(4)
    m.submodules.r = receiver = Receiver(4)
    m.d.comb += receiver.rx.eq(sender.tx)
    found = []

    async def give(ctx):
        for step, byte in enumerate((0x11, 0x22, 0x33)):
            ctx.set(sender.i.payload, byte)
            ctx.set(sender.i.valid, 1)
            await ctx.tick().until(sender.i.ready)
            ctx.set(sender.i.valid, 0)
            if step == 1:
                await ctx.tick().repeat(17)
                ctx.set(reset, 1)
                await ctx.tick()
                ctx.set(reset, 0)
                assert ctx.get(sender.tx) == 1
        await ctx.tick().repeat(60)

    async def listen(ctx):
        while True:
            _, _, valid, data = await ctx.tick().sample(receiver.valid, receiver.data)
            found.extend([data] * valid)

    simulate(ResetInserter(reset)(m), give, cycles=400, background=[listen])
    assert found == [0x11, 0x33]
