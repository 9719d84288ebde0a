"""Fetch and Load on one port: data, priority of commands, outstanding bursts, events."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped

from matloom.arch.config import Config
from matloom_rtl.bus.axi import AxiReadSignature
from matloom_rtl.bus.testing import AxiMemory
from matloom_rtl.dma.fetch import Fetch
from matloom_rtl.dma.load import Load
from matloom_rtl.dma.read_port import SharedReadPort
from matloom_rtl.dma.testing import CommandDriver, SpadPort
from matloom_rtl.testing import simulate

DRAM = random.Random(17).randbytes(0x4000)


class Readers(wiring.Component):
    """Both readers on a port, connected as in the core."""

    def __init__(self, config):
        super().__init__({"axi": Out(AxiReadSignature(config.bus_bits))})
        self.fetch, self.load, self.port = Fetch(config), Load(config), SharedReadPort(config)

    def elaborate(self, platform):
        m = Module()
        m.submodules += [self.fetch, self.load, self.port]
        connect(m, self.fetch.axi, self.port.fetch)
        connect(m, self.load.axi, self.port.load)
        connect(m, self.port.axi, flipped(self.axi))
        return m


class Bench:
    def __init__(self, bodies, *, stall=0.0, memory_stall=0.0, spad_stall=0.0, **fields):
        config = Config(**fields)
        self.dut = Readers(config)
        self.memory = AxiMemory(
            self.dut.axi, DRAM, burst_beats=config.burst_beats, stall=memory_stall, seed=2
        )
        self.spad = SpadPort(self.dut.load.spad_write, bytearray(0x2000), stall=spad_stall)
        self.commands = CommandDriver(self.dut.load.unit, bodies)
        self.stall, self.random = stall, random.Random(3)
        self.instruction_words, self.events = [], [0, 0]

    async def fetch(self, ctx):
        fetch = self.dut.fetch
        ctx.set(fetch.start, 1)
        ctx.set(fetch.address, 0x30)
        ctx.set(fetch.bytes, 16 * 100)
        await ctx.tick()
        ctx.set(fetch.start, 0)
        while len(self.instruction_words) < 100:
            ready = self.random.random() >= self.stall
            ctx.set(fetch.o.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(fetch.o.valid, fetch.o.payload)
            if valid and ready:
                self.instruction_words.append(payload)

    async def count(self, ctx):
        port = self.dut.port
        while True:
            _, _, burst, beat = await ctx.tick().sample(port.burst, port.beat)
            self.events[0] += burst
            self.events[1] += beat

    def run(self, *benches):
        return simulate(
            self.dut,
            *(benches or (self.fetch, self.commands.issue)),
            cycles=6000,
            background=(self.memory.read, self.spad.write, self.count),
        )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("bus_bits", [32, 64, 128, 256])
@pytest.mark.parametrize(
    ("outstanding", "stall", "memory_stall", "spad_stall"),
    [(8, 0.4, 0.3, 0.6), (5, 0, 0, 0), (5, 0.8, 0, 0), (5, 0, 0.3, 0.3)],
)
def test_each_reader_gets_its_own_data(bus_bits, outstanding, stall, memory_stall, spad_stall):
    bodies = [
        {"dram_offset": 0x1003 + 700 * index, "spad_addr": 600 * index, "row_bytes": 600}
        | {"rows": 1, "planes": 1}
        for index in range(8)
    ]
    bench = Bench(
        bodies,
        stall=stall,
        memory_stall=memory_stall,
        spad_stall=spad_stall,
        bus_bits=bus_bits,
        burst_beats=16,
        outstanding=outstanding,
    )
    bench.run()
    for body in bodies:
        start, target = body["dram_offset"], body["spad_addr"]
        assert bench.spad.contents[target : target + 600] == DRAM[start : start + 600]
    expected = [DRAM[0x30 + 16 * index :][:16] for index in range(100)]
    assert [item.to_bytes(16, "little") for item in bench.instruction_words] == expected
    assert bench.memory.most_outstanding <= outstanding
    assert bench.events == [
        len(bench.memory.bursts),
        sum(beats for _, _, beats in bench.memory.bursts),
    ]


def test_commands_pass_a_long_load():
    bench = Bench([{"dram_offset": 0, "spad_addr": 0, "row_bytes": 0x2000, "rows": 1, "planes": 1}])

    async def later(ctx):
        await ctx.tick().repeat(200)
        await bench.fetch(ctx)

    bench.run(later, bench.commands.issue)
    ids = [id for id, _, _ in bench.memory.bursts]
    first = ids.index(0)
    # Up to eight bursts of LOAD were on their way; then commands go first.
    assert first <= 200 // 32 + 9
    assert 0 in ids[first + 1 : first + 4]


def test_unread_commands_do_not_block_load():
    body = {"dram_offset": 0, "spad_addr": 0, "row_bytes": 0x1000, "rows": 1, "planes": 1}
    bench = Bench([body], stall=1.0)

    async def start(ctx):
        ctx.set(bench.dut.fetch.bytes, 16 * 100)
        ctx.set(bench.dut.fetch.start, 1)
        await ctx.tick()
        ctx.set(bench.dut.fetch.start, 0)

    assert bench.run(start, bench.commands.issue) <= 512 + 32 + 64 + 20


def test_an_address_once_shown_stays():
    dut = SharedReadPort(Config())

    async def check(ctx):
        ctx.set(dut.load.ar.payload, {"addr": 0x100, "len": 3})
        ctx.set(dut.load.ar.valid, 1)
        await ctx.tick()
        ctx.set(dut.fetch.ar.payload, {"addr": 0x200, "len": 1})
        ctx.set(dut.fetch.ar.valid, 1)
        await ctx.tick()
        ctx.set(dut.axi.ar.ready, 1)
        _, _, first, load_ready, fetch_ready = await ctx.tick().sample(
            dut.axi.ar.payload, dut.load.ar.ready, dut.fetch.ar.ready
        )
        assert (first.id, first.addr, first.len) == (1, 0x100, 3)
        assert (load_ready, fetch_ready) == (1, 0)
        _, _, second, load_ready, fetch_ready = await ctx.tick().sample(
            dut.axi.ar.payload, dut.load.ar.ready, dut.fetch.ar.ready
        )
        assert (second.id, second.addr, second.len) == (0, 0x200, 1)
        assert (load_ready, fetch_ready) == (0, 1)

    simulate(dut, check, cycles=20)


def test_ready_does_not_follow_the_id():
    """No combinational path: READY is the same for both ids, whatever the other inputs."""
    dut, rng, seen = SharedReadPort(Config(outstanding=3)), random.Random(5), set()
    inputs = (dut.fetch.ar.valid, dut.load.ar.valid, dut.axi.ar.ready, dut.load.r.ready)
    inputs += (dut.axi.r.valid, dut.axi.r.payload.last)

    async def main(ctx):
        ctx.set(dut.fetch.r.ready, 1)
        for _cycle in range(300):
            for each in inputs:
                ctx.set(each, rng.getrandbits(1))
            found = []
            for id in (0, 1):
                ctx.set(dut.axi.r.payload.id, id)
                found.append(ctx.get(dut.axi.r.ready))
            assert found[0] == found[1]
            seen.add(found[0])
            await ctx.tick()

    simulate(dut, main, cycles=400)
    assert seen == {0, 1}


def test_commands_that_arrive_while_load_waits_are_taken_once():
    """Fetch's beat waits for a write of LOAD; Fetch accepts it when the bus shows it."""
    dut = SharedReadPort(Config(outstanding=2))

    async def main(ctx):
        ctx.set(dut.axi.ar.ready, 1)
        ctx.set(dut.fetch.r.ready, 1)
        for reader in (dut.fetch, dut.load):
            ctx.set(reader.ar.valid, 1)
            await ctx.tick()
            ctx.set(reader.ar.valid, 0)
        # One burst of each is on its way. LOAD refuses beats, the memory has one of Fetch.
        ctx.set(dut.axi.r.valid, 1)
        ctx.set(dut.axi.r.payload, {"id": 0, "data": 7, "last": 1, "resp": 0})
        for ready in (0, 0, 1):
            ctx.set(dut.load.r.ready, ready)
            assert (ctx.get(dut.axi.r.ready), ctx.get(dut.fetch.r.valid)) == (ready, ready)
            assert not ctx.get(dut.load.r.valid)
            await ctx.tick()
        # LOAD's own is on its way, until it is taken; then nothing is owed to LOAD.
        ctx.set(dut.axi.r.payload, {"id": 1, "data": 8, "last": 1, "resp": 0})
        assert (ctx.get(dut.axi.r.ready), ctx.get(dut.load.r.valid)) == (1, 1)
        await ctx.tick()
        ctx.set(dut.load.r.ready, 0)
        ctx.set(dut.axi.r.valid, 0)
        assert ctx.get(dut.axi.r.ready) == 1

    simulate(dut, main, cycles=20)


@pytest.mark.parametrize("outstanding", [1, 2, 4, 7, 8, 16])
def test_no_more_bursts_than_may_be_outstanding(outstanding):
    """Both readers always request; only the last beat of a burst makes room for another."""
    dut, asked = SharedReadPort(Config(outstanding=outstanding)), []

    async def step(ctx, beat, last):
        ctx.set(dut.axi.r.valid, beat)
        ctx.set(dut.axi.r.payload.last, last)
        _clk, _rst, valid = await ctx.tick().sample(dut.axi.ar.valid)
        asked.append(valid)

    async def main(ctx):
        for port in (dut.fetch, dut.load):
            ctx.set(port.ar.valid, 1)
            ctx.set(port.r.ready, 1)
        ctx.set(dut.axi.ar.ready, 1)
        for _cycle in range(40):
            await step(ctx, 0, 0)
        assert asked == [1] * outstanding + [0] * (40 - outstanding)
        for beat, last, more in ((1, 0, 0), (0, 1, 0), (1, 1, 1), (1, 0, 0), (1, 1, 1)):
            asked.clear()
            await step(ctx, beat, last)
            for _cycle in range(3):
                await step(ctx, 0, 0)
            assert sum(asked) == more

    simulate(dut, main, cycles=100)
