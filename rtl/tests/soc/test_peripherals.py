"""Registers of the processor's peripherals: values, cycles, interrupts, lost bytes, reset."""

from dataclasses import replace

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib.wiring import connect

from matloom.arch.soc import MEMORY_BASE, PERIPHERALS, SOC_IDENTITY, soc_register
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.soc.interrupts import Interrupts
from matloom_rtl.soc.peripheral import PeripheralBridge
from matloom_rtl.soc.settings import SocSettings, line_for
from matloom_rtl.soc.system import System
from matloom_rtl.soc.testing import BusInitiator
from matloom_rtl.soc.timer import Timer
from matloom_rtl.soc.uart import Uart
from matloom_rtl.testing import simulate

SETTINGS = LinkSettings(
    clock_hz=8_000_000,
    baud=250_000,
    board="sixteen letters!",
    memory_base=MEMORY_BASE,
    memory_bytes=4096,
)


class Bench:
    """One peripheral at window 3 of the bridge."""

    def __init__(self, name, part):
        self.name, self.part = name, part
        self.reset = Signal()
        bridge, m = PeripheralBridge((3,)), Module()
        m.submodules.bridge, m.submodules.part = bridge, part
        connect(m, bridge.peripheral_0, part.port)
        self.module, self.cpu = m, BusInitiator(bridge.wishbone)

    async def read(self, ctx, name):
        address = 0x3000 + soc_register(self.name, name).offset
        value, failed = await self.cpu.access(ctx, address)
        assert not failed
        assert self.cpu.cycles == 2
        return value

    async def write(self, ctx, name, value):
        address = 0x3000 + soc_register(self.name, name).offset
        assert not (await self.cpu.access(ctx, address, value))[1]

    async def resets(self, ctx):
        """Check that every register has its reset value."""
        ctx.set(self.reset, 1)
        await ctx.tick()
        ctx.set(self.reset, 0)
        for item in PERIPHERALS[self.name]:
            if item.name not in ("COUNT_LOW", "DIVISOR"):
                assert await self.read(ctx, item.name) == item.reset, item.name

    def run(self, *benches, cycles=3000, background=()):
        dut = ResetInserter(self.reset)(self.module)
        simulate(dut, *benches, cycles=cycles, background=background)


def test_timer():
    bench = Bench("TIMER", Timer())

    async def processor(ctx):
        first = await bench.read(ctx, "COUNT_LOW")
        # Two cycles per word.
        assert await bench.read(ctx, "COUNT_LOW") == first + 2
        await bench.write(ctx, "COMPARE_HIGH", 0)
        await bench.write(ctx, "COMPARE_LOW", 40)
        assert await bench.read(ctx, "COMPARE_LOW") == 40
        await bench.write(ctx, "COMPARE_HIGH", 0x8000_0001)
        await bench.write(ctx, "COMPARE_LOW", 40)
        assert await bench.read(ctx, "COMPARE_HIGH") == 0x8000_0001
        await bench.write(ctx, "COMPARE_HIGH", 0)
        await ctx.tick().repeat(60)
        assert not ctx.get(bench.part.irq), "not enabled"
        await bench.write(ctx, "CONTROL", 1)
        assert await bench.read(ctx, "CONTROL") == 1
        now = await bench.read(ctx, "COUNT_LOW")
        await bench.write(ctx, "COMPARE_LOW", now + 30)
        await ctx.tick().repeat(3)
        assert not ctx.get(bench.part.irq)
        while not ctx.get(bench.part.irq):
            await ctx.tick()
        # `irq` follows by two cycles.
        assert await bench.read(ctx, "COUNT_LOW") == now + 30 + 2
        await bench.write(ctx, "COMPARE_HIGH", 1)
        await ctx.tick().repeat(2)
        assert not ctx.get(bench.part.irq)
        await bench.resets(ctx)

    bench.run(processor)


def test_half_a_request_is_none():
    bench = Bench("TIMER", Timer())

    async def processor(ctx):
        address = 0x3000 + soc_register("TIMER", "CONTROL").offset
        await bench.cpu.half_requests(ctx, address, write=True)
        assert await bench.read(ctx, "CONTROL") == 0

    bench.run(processor)


def test_the_upper_half_of_the_count_is_held():
    bench = Bench("TIMER", Timer(first=2**32 - 10))

    async def processor(ctx):
        low = await bench.read(ctx, "COUNT_LOW")
        assert 2**32 - 10 <= low < 2**32
        await ctx.tick().repeat(20)
        assert await bench.read(ctx, "COUNT_HIGH") == 0, "the half that belongs to COUNT_LOW"
        assert await bench.read(ctx, "COUNT_LOW") < 2**31
        assert await bench.read(ctx, "COUNT_HIGH") == 1

    bench.run(processor)


def test_interrupts():
    bench = Bench("INTERRUPTS", Interrupts())

    async def processor(ctx):
        for sources in range(8):
            ctx.set(bench.part.sources, sources)
            assert await bench.read(ctx, "PENDING") == sources
            for enable in range(8):
                await bench.write(ctx, "ENABLE", enable)
                assert await bench.read(ctx, "ENABLE") == enable
                assert ctx.get(bench.part.irq) == bool(sources & enable)
        ctx.set(bench.part.sources, 0)
        await bench.resets(ctx)

    bench.run(processor)


@pytest.mark.parametrize(("cpu", "data_cache_bytes"), [("default", 4096), ("lite", 0)])
def test_system(cpu, data_cache_bytes):
    bench = Bench("SYSTEM", System(SocSettings(link=SETTINGS, rom=b"", cpu=cpu)))

    async def processor(ctx):
        assert await bench.read(ctx, "ID") == SOC_IDENTITY
        assert await bench.read(ctx, "CLOCK_HZ") == 8_000_000
        assert await bench.read(ctx, "MEMORY_BASE") == MEMORY_BASE
        assert await bench.read(ctx, "MEMORY_BYTES") == 4096
        words = [await bench.read(ctx, f"BOARD_{k}") for k in range(4)]
        assert b"".join(w.to_bytes(4, "little") for w in words) == b"sixteen letters!"
        assert await bench.read(ctx, "DATA_CACHE") == data_cache_bytes
        assert await bench.read(ctx, "ERRORS") == 0
        ctx.set(bench.part.address, 0x1234)
        ctx.set(bench.part.failed, 1)
        await ctx.tick()
        ctx.set(bench.part.failed, 0)
        ctx.set(bench.part.address, 0)
        assert await bench.read(ctx, "ERRORS") == 1
        assert await bench.read(ctx, "ERROR_ADDRESS") == 0x48D0
        await bench.write(ctx, "ERRORS", 0xFFFF_FFFE)
        assert await bench.read(ctx, "ERRORS") == 1, "only a one in bit 0 clears it"
        await bench.write(ctx, "ERRORS", 1)
        assert await bench.read(ctx, "ERRORS") == 0

    bench.run(processor)


def looped(divisor, room=4):
    """Return a bench whose UART is connected to itself."""
    bench = Bench("UART", Uart(divisor, room))
    bench.module.d.comb += bench.part.rx.eq(bench.part.tx)
    return bench


async def _say(ctx, bench, data):
    for byte in data:
        while not await bench.read(ctx, "STATUS") & 2:
            pass
        await bench.write(ctx, "DATA", byte)


@pytest.mark.parametrize("divisor", [8, 21])
def test_uart(divisor):
    bench = looped(2)

    async def processor(ctx):
        assert await bench.read(ctx, "DIVISOR") == 2
        await bench.write(ctx, "DIVISOR", divisor)
        assert await bench.read(ctx, "STATUS") == 2
        started = 0
        await _say(ctx, bench, b"\x5a")
        while not ctx.get(bench.part.irq):
            await ctx.tick()
            started += 1
        # Nine bits and a half: the middle of its stop bit.
        assert divisor * 9.5 - 3 < started < divisor * 9.5 + 10
        assert await bench.read(ctx, "STATUS") & 1
        assert await bench.read(ctx, "DATA") == 0x5A
        assert not ctx.get(bench.part.irq)
        assert await bench.read(ctx, "DATA") == 0, "nothing is there"
        await _say(ctx, bench, b"\x01\xff\x80")
        await ctx.tick().repeat(22 * divisor)
        assert [await bench.read(ctx, "DATA") for _ in range(3)] == [1, 255, 128]

    bench.run(processor)


def test_overrun_is_reported():
    bench = looped(4)

    async def processor(ctx):
        await _say(ctx, bench, b"abcdefg")
        await ctx.tick().repeat(80)
        assert await bench.read(ctx, "STATUS") == 7
        # One more than its room, in the register that is read.
        found = [await bench.read(ctx, "DATA") for _ in range(5)]
        assert bytes(found) == b"abcd\0"
        await bench.write(ctx, "STATUS", 0)
        assert await bench.read(ctx, "STATUS") == 6
        await bench.write(ctx, "STATUS", 4)
        assert await bench.read(ctx, "STATUS") == 2

    bench.run(processor)


def test_a_byte_while_one_waits_is_lost():
    bench = looped(4)

    async def processor(ctx):
        for byte in b"xyz":
            await bench.write(ctx, "DATA", byte)
        await ctx.tick().repeat(120)
        assert bytes([await bench.read(ctx, "DATA") for _ in range(3)]) == b"xy\0"

    bench.run(processor)


def test_reset_of_the_uart_midway():
    bench = looped(4)

    async def processor(ctx):
        await _say(ctx, bench, b"\x00\x00")
        await ctx.tick().repeat(13)
        await bench.resets(ctx)
        await ctx.tick().repeat(100)
        assert await bench.read(ctx, "STATUS") == 2

    bench.run(processor)


def test_a_line_that_the_processor_does_not_keep_up_with():
    fast = replace(SETTINGS, baud=500_000)
    assert SocSettings(link=fast, rom=b"").cpu == "default"
    with pytest.raises(ValueError, match="must take 30 cycles or more with processor lite, not 16"):
        SocSettings(link=fast, rom=b"", cpu="lite")
    assert line_for(fast, "default") == fast
    assert line_for(fast, "lite") == replace(SETTINGS, baud=115_200)
    with pytest.raises(ValueError, match="must have 30 cycles of its clock for a bit"):
        line_for(replace(SETTINGS, clock_hz=2_000_000, baud=500_000), "lite")
