"""The engine's registers on the processor's bus: values, cycles, errors, reset."""

from amaranth.hdl import ResetInserter, Signal

from matloom_rtl.soc.testing import BusInitiator
from matloom_rtl.soc.wishbone import RegisterBridge
from matloom_rtl.testing import simulate

ERROR = 2
LOCKED = 0x80


class Bench:
    def __init__(self):
        self.dut = RegisterBridge()
        self.reset = Signal()
        self.registers = {}
        self.cpu = BusInitiator(self.dut.wishbone)

    async def serve(self, ctx):
        """Accept addresses and words at once; answer in the next cycle."""
        lite = self.dut.axi_lite
        for channel in (lite.ar, lite.aw, lite.w):
            ctx.set(channel.ready, 1)
        while True:
            _, _, ar, asked, aw, named, word = await ctx.tick().sample(
                lite.ar.valid, lite.ar.payload, lite.aw.valid, lite.aw.payload, lite.w.payload
            )
            if aw:
                self.registers[named] = (word.data, word.strb)
            ctx.set(lite.r.valid, ar)
            ctx.set(lite.b.valid, aw)
            ctx.set(lite.b.payload, ERROR if named == LOCKED else 0)
            value = self.registers.get(asked, (0, 0))[0]
            ctx.set(lite.r.payload, {"data": value, "resp": 0})

    def run(self, bench):
        dut = ResetInserter(self.reset)(self.dut)
        simulate(dut, bench, cycles=400, background=[self.serve])


def test_values_and_cycles():
    bench = Bench()

    async def processor(ctx):
        await bench.cpu.access(ctx, 0xF000_0024, 0x12345678, sel=6)
        assert bench.cpu.cycles == 4
        assert await bench.cpu.access(ctx, 0xF000_0024) == (0x12345678, False)
        assert bench.cpu.cycles == 4

    bench.run(processor)
    assert bench.registers == {0x24: (0x12345678, 6)}


def test_half_a_request_is_none():
    bench = Bench()

    async def processor(ctx):
        for write in (False, True):
            await bench.cpu.half_requests(ctx, 0x24, write=write)

    bench.run(processor)
    assert not bench.registers


def test_an_error_is_passed_on():
    bench = Bench()

    async def processor(ctx):
        assert (await bench.cpu.access(ctx, LOCKED, 1))[1]
        assert not (await bench.cpu.access(ctx, LOCKED + 4, 1))[1]

    bench.run(processor)


def test_reset_midway_forgets_the_request():
    bench = Bench()

    async def processor(ctx):
        bus = bench.dut.wishbone
        ctx.set(bus.cyc, 1)
        ctx.set(bus.stb, 1)
        await ctx.tick().repeat(2)
        ctx.set(bench.reset, 1)
        await ctx.tick()
        for _ in range(6):
            _, _, ack, err = await ctx.tick().sample(bus.ack, bus.err)
            assert not ack | err
        ctx.set(bench.reset, 0)
        bench.registers[8] = (77, 15)
        assert await bench.cpu.access(ctx, 8) == (77, False)

    bench.run(processor)
