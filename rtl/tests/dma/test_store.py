"""STORE, compared with loops over bytes: alignments, widths, cycles, stalls, errors, halt."""

import dataclasses
import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom_rtl.bus.testing import AxiMemory
from matloom_rtl.dma.store import Store
from matloom_rtl.dma.testing import CommandDriver, SpadPort, with_bases
from matloom_rtl.testing import cached_unit, simulate

BASES = (0x0000, 0x1000, 0x2000, 0x2100)
DRAM_BYTES = 0x8000
SPAD_BYTES = 0x2000
BUSES = [32, 64, 128, 256]


def make_config(bus_bits=64):
    return Config(bus_bits=bus_bits, burst_beats={32: 16, 64: 32, 128: 32, 256: 16}[bus_bits])


def linear(offset, size, spad, **other):
    body = {"dram_offset": offset, "spad_addr": spad, "row_bytes": size, "rows": 1, "planes": 1}
    return body | other


def reference(bodies, dram, spad):
    """Execute an instruction by the definition of its fields."""
    for body in bodies:
        for plane in range(body["planes"]):
            for row in range(body["rows"]):
                target = (
                    BASES[body.get("region", 0)]
                    + body["dram_offset"]
                    + row * body.get("dram_row_step", 0)
                    + plane * body.get("dram_plane_step", 0)
                )
                source = (
                    body["spad_addr"]
                    + row * body.get("spad_row_step", 0)
                    + plane * body.get("spad_plane_step", 0)
                )
                size = body["row_bytes"]
                dram[target : target + size] = spad[source : source + size]
    return dram


class Bench:
    """A Store between memories; `run` executes instructions and compares external memory."""

    def __init__(self, config, bodies, *, stall=0.0, memory_stall=0.0, spad_stall=0.0, **memory):
        chance = random.Random(5)
        self.bodies = bodies
        self.dut = dut = cached_unit(Store, config)
        self.chip = cached_unit(with_bases, dut, BASES)
        self.before = bytearray(chance.randbytes(DRAM_BYTES))
        self.memory = AxiMemory(
            dut.axi,
            bytearray(self.before),
            burst_beats=config.burst_beats,
            stall=memory_stall,
            **memory,
        )
        self.spad = SpadPort(dut.spad_read, chance.randbytes(SPAD_BYTES), stall=spad_stall)
        self.commands = CommandDriver(dut.unit, bodies, stall=stall)
        self.background = [self.memory.write, self.spad.read]

    def run(self, limit=20000):
        cycles = simulate(
            self.chip,
            self.commands.issue,
            cycles=limit,
            background=self.background,
        )
        self.check()
        return cycles

    def check(self):
        expected = reference(self.bodies, bytearray(self.before), self.spad.contents)
        assert self.memory.contents == expected
        timestamps = [body.get("timestamp", 0) for body in self.bodies]
        assert [timestamp for _, timestamp in self.commands.done] == timestamps


def random_body(chance):
    """Return rows within the memory sizes above, with strides in both memories."""
    return {
        "timestamp": chance.randrange(64),
        "region": chance.randrange(4),
        "dram_offset": chance.randrange(0x1000),
        "spad_addr": chance.choice((0, 1, chance.randrange(0x800))),
        "row_bytes": chance.choice((1, 2, 9, 31, 64, chance.randrange(1, 400))),
        "rows": chance.randrange(1, 5),
        "planes": chance.randrange(1, 4),
        "dram_row_step": chance.randrange(1, 700),
        "dram_plane_step": chance.randrange(1, 3000),
        "spad_row_step": chance.randrange(1, 450),
        "spad_plane_step": chance.randrange(1, 1000),
    }


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("bus_bits", BUSES)
def test_random_transfers(bus_bits):
    chance = random.Random(bus_bits)
    Bench(make_config(bus_bits), [random_body(chance) for _ in range(14)]).run()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("bus_bits", "stall", "memory_stall", "spad_stall"),
    [(32, 0.5, 0.3, 0.3), (64, 0.7, 0, 0), (64, 0, 0.4, 0), (64, 0, 0, 0.5), (256, 0.5, 0.3, 0.3)],
)
def test_random_transfers_stalled(bus_bits, stall, memory_stall, spad_stall):
    chance = random.Random(bus_bits + 1)
    bench = Bench(
        make_config(bus_bits),
        [random_body(chance) for _ in range(8)],
        stall=stall,
        memory_stall=memory_stall,
        spad_stall=spad_stall,
        seed=3,
    )
    bench.run()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("address_first", "memory_stall"), [(0, 0.9), (1, 0), (1, 0.9)])
def test_data_wait_for_their_address_where_they_must(address_first, memory_stall):
    """With `address_first`, no beat precedes its burst's address; without it, some beats do."""
    chance = random.Random(9)
    config = dataclasses.replace(make_config(), address_first=address_first)
    bench = Bench(
        config, [random_body(chance) for _ in range(6)], memory_stall=memory_stall, seed=3
    )
    axi, early = bench.dut.axi, []

    async def watch(ctx):
        addressed = 0
        while True:
            _clk, _rst, shown, ended, taken = await ctx.tick().sample(
                axi.w.valid,
                axi.w.valid & axi.w.ready & axi.w.payload.last,
                axi.aw.valid & axi.aw.ready,
            )
            early.append(bool(shown and not addressed))
            addressed += taken - ended

    bench.background.append(watch)
    bench.run()
    assert any(early) == (not address_first)


@pytest.mark.parametrize("bus_bits", BUSES)
def test_every_alignment(bus_bits):
    step = bus_bits // 8
    shapes = [(shift, size) for shift in range(step) for size in (1, 2 * step)][:48]
    bodies = [
        linear(4096 - 2 * step + shift + 4 * step * index, step + size, 100 * index + shift % 3)
        for index, (shift, size) in enumerate(shapes)
    ]
    Bench(make_config(bus_bits), bodies).run()


def test_first_read_may_start_below_zero():
    Bench(make_config(), [linear(7, 20, 0), linear(45, 1, 1)]).run()


def test_long_linear_store_takes_a_beat_a_cycle():
    bench = Bench(make_config(), [linear(0, 4096, 0)])
    assert bench.run() <= 512 + 32 + 14
    assert bench.spad.grants == list(range(bench.spad.grants[0], bench.spad.grants[0] + 512))


def test_instructions_follow_without_a_gap():
    bodies = [linear(256 * index, 256, 256 * index, timestamp=index) for index in range(16)]
    assert Bench(make_config(), bodies).run() <= 32 + 16 * 32 + 14


def test_short_rows_overlap_their_latencies():
    bench = Bench(make_config(), [linear(3, 9, 0, rows=32, dram_row_step=128, spad_row_step=9)])
    # Eight bursts on their way: a quarter of the rows for each latency and a little.
    assert bench.run() <= 4 * (32 + 12) + 16
    assert bench.memory.most_outstanding == 8


def test_done_follows_the_last_response():
    bench = Bench(make_config(), [linear(0, 64, 0)])
    bench.run()
    # Data to the bus 7 cycles after the grant, response 32 later, done one later.
    assert [cycle for cycle, _ in bench.commands.done] == [bench.spad.grants[-1] + 7 + 32 + 1]


def test_error_is_reported_with_the_address_of_its_burst():
    bench = Bench(make_config(), [linear(0, 1024, 0)], broken=[0x100])
    seen = []

    async def watch(ctx):
        fault = bench.dut.fault
        while True:
            _, _, valid, cause, address = await ctx.tick().sample(
                fault.valid, fault.cause, fault.address
            )
            if valid:
                seen.append((cause, address))

    simulate(
        bench.chip,
        bench.commands.issue,
        cycles=400,
        background=(bench.memory.write, bench.spad.read, watch),
    )
    assert seen == [(Fault.AXI_WRITE, 0x100)]
    assert len(bench.commands.done) == 1


def offer_until_halt(dut, bodies):
    """Return a bench that offers instructions until a halt."""

    async def run(ctx):
        for body in bodies:
            ctx.set(dut.unit.command.payload, body)
            ctx.set(dut.unit.command.valid, 1)
            while True:
                _, _, ready, halt = await ctx.tick().sample(dut.unit.command.ready, dut.halt)
                if halt:
                    return
                if ready:
                    break
        ctx.set(dut.unit.command.valid, 0)

    return run


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("when", [37, 3, 4, 9, 20, 60, 90])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_halt_then_reset_then_again(when, stall):
    bodies = [linear(8 * index + 400 * index, 300, 500 * index) for index in range(4)]
    bench = Bench(make_config(), bodies, memory_stall=stall, spad_stall=stall)
    dut = bench.dut
    reset = Signal()

    async def stop(ctx):
        await ctx.tick().repeat(when)
        ctx.set(dut.halt, 1)
        # Reads and bursts of the cycle before are noted in this instant.
        await ctx.delay(1e-9)
        reads, bursts = len(bench.spad.grants), len(bench.memory.bursts)
        await ctx.tick()
        await ctx.tick().until(dut.quiet)
        assert bench.memory.outstanding == 0
        assert len(bench.spad.grants) == reads
        assert len(bench.memory.bursts) <= bursts + 1
        ctx.set(dut.unit.command.valid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(dut.halt, 0)
        await bench.commands.issue(ctx)

    simulate(
        ResetInserter(reset)(bench.chip),
        stop,
        cycles=3000,
        background=(offer_until_halt(dut, bodies), bench.memory.write, bench.spad.read),
    )
    bench.check()


def test_halt_while_the_scratchpad_refuses_everything():
    bench = Bench(make_config(), [linear(0, 600, 0)], spad_stall=1.0)

    async def stop(ctx):
        await ctx.tick().repeat(50)
        assert ctx.get(bench.dut.spad_read.valid)
        ctx.set(bench.dut.halt, 1)
        assert not ctx.get(bench.dut.spad_read.valid)
        await ctx.tick().repeat(2)
        await ctx.tick().until(bench.dut.quiet)

    simulate(
        bench.chip,
        stop,
        cycles=500,
        background=(bench.commands.issue, bench.memory.write, bench.spad.read),
    )
    assert bench.memory.contents == bench.before


@pytest.mark.parametrize("silent", ["scratchpad", "bus"])
def test_no_progress_while_stuck(silent):
    """A stuck bus or scratchpad makes no progress, so that the watchdog can notice."""
    stalls = {"spad_stall": 1.0} if silent == "scratchpad" else {"memory_stall": 1.0}
    bench = Bench(make_config(), [linear(0, 600, 0)], **stalls)
    told = []

    async def watch(ctx):
        while True:
            _, _, progress, busy = await ctx.tick().sample(
                bench.dut.unit.progress, bench.dut.unit.busy
            )
            told.append((progress, busy))

    async def wait(ctx):
        await ctx.tick().repeat(80)

    simulate(
        bench.chip,
        wait,
        cycles=100,
        background=(bench.commands.issue, bench.memory.write, bench.spad.read, watch),
    )
    assert told[40:] == [(0, 1)] * len(told[40:])
    # What the units hold between them comes in before all rests.
    assert any(progress for progress, _busy in told) == (silent == "bus")


def test_reads_beats_and_responses_are_progress():
    """From the first read to the last response, no pause exceeds a latency."""
    bench = Bench(make_config(), [linear(0, 600, 0)], memory_stall=0.3, spad_stall=0.3, latency=20)
    told = []

    async def watch(ctx):
        b, w = bench.dut.axi.b, bench.dut.axi.w
        while True:
            _, _, moved, progress = await ctx.tick().sample(
                (b.valid & b.ready) | (w.valid & w.ready), bench.dut.unit.progress
            )
            told.append((moved, progress))

    simulate(
        bench.chip,
        bench.commands.issue,
        cycles=1000,
        background=(bench.memory.write, bench.spad.read, watch),
    )
    assert sum(moved for moved, _progress in told) > 70
    assert all(told[n + 1][1] for n, (moved, _progress) in enumerate(told[:-1]) if moved)
