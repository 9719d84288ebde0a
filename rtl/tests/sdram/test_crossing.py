# amaranth: UnusedElaboratable=no
"""The controller with a clock of its own: exact data at any ratio, rates, latencies, resets."""

import dataclasses
import math
import random

import pytest
from amaranth.hdl import DomainRenamer, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.sdram import load_sdram
from matloom_rtl.board.clocking import Reset, reset_both
from matloom_rtl.sdram.controller import SdramController
from matloom_rtl.sdram.initiator import Initiator, random_bursts
from matloom_rtl.sdram.testing import Sdram
from matloom_rtl.testing import kept, simulate

#: Period of the SDRAM's clock in cycles of the bus: as a ULX3S has it, equal, to the limits of a
#: board file both ways, and two without a common multiple.
RATIOS = {
    "75 of 135": 75 / 135,
    "equal": 1,
    "four times": 1 / 4,
    "a quarter": 4,
    "golden": (math.sqrt(5) - 1) / 2,
    "nearly equal": math.sqrt(1.01),
}


def _often(values, often, ids=None):
    """Return parameters, those in every run and the others marked as slow."""
    return [
        pytest.param(value, id=name, marks=() if value in often else pytest.mark.slow)
        for value, name in zip(values, ids or [None] * len(values), strict=True)
    ]


#: What every run has of them.
SOME = _often(RATIOS.values(), (RATIOS["75 of 135"], RATIOS["nearly equal"]), RATIOS)

#: Part, its clock in MHz, bus bits.
CASES = [("IS42S16160", 135, 64), ("IS42S16160", 133, 32), ("2 x M12L16161A", 133, 32)]


class Clocked(wiring.Component):
    """A controller in the domain `memory`, its bus in `bus`, which `sync` never resets."""

    locked: In(1, init=1)
    reset: Out(1)

    def __init__(self, part, **options):
        self.controller = SdramController(part, bus="bus", **options)
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.start = start = Reset()
        reset_both(m, start.reset)
        m.submodules.controller = DomainRenamer({"sync": "memory"})(self.controller)
        m.d.comb += [start.locked.eq(self.locked), self.reset.eq(ResetSignal("bus"))]
        return m


class Bench:
    """A controller of its own clock, its SDRAM, and an initiator on the bus."""

    def __init__(self, ratio, case=CASES[0], *, span=1 << 16, **options):
        name, mhz, bus_bits = case
        self.ratio, self.part = ratio, load_sdram(name)
        # Nobody wants to wait 200 us.
        timing = dataclasses.replace(self.part.timing(mhz * 10**6), power_up=300)
        outward, inward = options.pop("outward", 0), options.pop("inward", 0)
        self.dut = kept(
            Clocked,
            self.part,
            clock_hz=mhz * 10**6,
            bus_bits=bus_bits,
            pin_cycles=outward + inward,
            timing=timing,
        )
        self.controller = self.dut.controller
        self.sdram = Sdram(self.part, timing)
        self.contents = bytearray(random.Random(7).randbytes(span))
        self.sdram.write(0, bytes(self.contents))
        # The last words reach the SDRAM after the response, however slow its clock.
        self.initiator = Initiator(self.controller, self.contents, after=100, **options)
        pins = self.controller.pins
        at_pins = self.sdram.attach(pins, outward=outward, inward=inward, domain="memory")
        self.benches = self.initiator.benches
        self.background = [self.initiator.count, at_pins]

    def after_reset(self, bench):
        """Return a bench that begins when the bus' reset is over."""

        async def run(ctx):
            await ctx.tick().until(~self.dut.reset)
            await bench(ctx)

        return run

    def interrupt(self, when, lost):
        """Ask for bursts without end, and lose the lock midway; then begin with the benches."""
        dut, controller, begun = self.dut, self.controller, []
        channels = (controller.axi_read.ar, controller.axi_write.aw, controller.axi_write.w)

        async def disturb(ctx):
            for channel in channels:
                ctx.set(channel.valid, 1)
            ctx.set(controller.axi_read.ar.payload.len, 20)
            ctx.set(controller.axi_write.aw.payload.len, 20)
            await ctx.tick().repeat(when)
            assert self.sdram.breach == "none"
            assert self.sdram.counts["columns"]
            ctx.set(dut.locked, 0)
            await ctx.tick().repeat(lost)
            ctx.set(dut.locked, 1)
            for channel in channels:
                ctx.set(channel.valid, 0)
            await ctx.tick().until(dut.reset)
            # A write may have been cut short, which is no breach now.
            self.sdram.power_up()
            self.sdram.write(0, bytes(self.contents))
            begun.append(when)
            await ctx.tick().until(~dut.reset)

        def later(bench):
            async def run(ctx):
                while not begun:
                    await ctx.tick()
                await ctx.tick().until(~dut.reset)
                await bench(ctx)

            return run

        # The initiator draws its bytes when it asks, after the reset.
        self.benches = [disturb, *map(later, self.benches)]

    def run(self, limit):
        clocks = {"bus": 1, "memory": self.ratio}
        cycles = simulate(
            self.dut,
            *map(self.after_reset, self.benches),
            cycles=limit,
            background=self.background,
            clocks=clocks,
        )
        assert self.sdram.breach == "none", f"{self.sdram.breach} at {self.sdram.breach_edge}"
        assert self.sdram.read(0, len(self.contents)) == bytes(self.contents)
        return cycles


@pytest.mark.parametrize("stall", [0, 0.4])
@pytest.mark.parametrize(
    "case",
    _often(CASES, CASES[:1]),
    ids=lambda case: "-".join(map(str, case)),
)
@pytest.mark.parametrize("ratio", SOME)
def test_random_traffic(ratio, case, stall, seed):
    """Every beat is right, none is lost or comes twice, and no rule of the SDRAM is broken."""
    chance = random.Random(seed)
    width = case[2] // 8
    Bench(
        ratio,
        case,
        reads=random_bursts(chance, 24, width, 1 << 16),
        writes=random_bursts(chance, 24, width, 1 << 16),
        stall=stall,
        seed=seed,
    ).run(60000)


def straight(width, beats, size, start=0):
    """Return full bursts, one after another, of so many bytes."""
    return [(start + place, beats) for place in range(0, size, width * beats)]


def columns_a_cycle(bench, limit):
    """Run and return the columns by cycle of the SDRAM, from the first to the last."""
    seen, pins = [], bench.controller.pins

    async def watch(ctx):
        while True:
            _clk, _rst, cas, ras = await ctx.tick("memory").sample(pins.cas, pins.ras)
            seen.append(cas & ~ras & 1)

    bench.background.append(watch)
    bench.run(limit)
    first, last = seen.index(1), len(seen) - seen[::-1].index(1) - 1
    return bench.sdram.counts["columns"] / (last - first + bench.controller.plan.burst)


@pytest.mark.parametrize(
    ("ratio", "case", "reads", "writes", "least"),
    [
        # 4 columns a beat, which the bus takes while the SDRAM reads the next.
        (75 / 135, CASES[0], 1, 0, 0.95),
        (75 / 135, CASES[0], 0, 1, 0.95),
        (75 / 135, CASES[0], 1, 1, 0.92),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                (1, CASES[0], 1, 0, 0.95),
                (1, CASES[0], 0, 1, 0.95),
                (3, CASES[0], 1, 0, 0.95),
                (66.67 / 133.33, CASES[1], 1, 0, 0.95),
            ]
        ),
        # Pins as wide as the bus: it takes a beat of its own cycles.
        (75 / 133, CASES[2], 1, 0, 0.95 * 75 / 133),
        (75 / 133, CASES[2], 0, 1, 0.95 * 75 / 133),
    ],
)
def test_efficiency(ratio, case, reads, writes, least):
    """Columns by cycle in long transfers, refreshes included: as with one clock."""
    width, size = case[2] // 8, 1 << 13
    bench = Bench(
        ratio,
        case,
        reads=straight(width, 32, size) if reads else (),
        writes=straight(width, 32, size, start=3 * size) if writes else (),
        full=True,
    )
    found = columns_a_cycle(bench, 30000)
    print(f"{found:.3f} of {least:.3f}")
    assert found >= least
    columns = bench.sdram.counts["columns"]
    assert columns == (reads + writes) * size * 8 // bench.part.data_bits


def times(bench, begins, ends, limit):
    """Run and return the cycles of the bus from each event to its answer, but for the first."""
    started, ended = [], []

    async def watch(ctx):
        cycle = 0
        while True:
            _clk, _rst, begin, end = await ctx.tick().sample(begins, ends)
            cycle += 1
            started.extend([cycle] * (begin & 1))
            ended.extend([cycle] * (end & 1))

    bench.background.append(watch)
    bench.run(limit)
    return [end - start for start, end in zip(started, ended, strict=True)][1:]


@pytest.mark.parametrize("ratio", SOME)
@pytest.mark.parametrize("registers", [0, 1])
def test_latency_of_an_open_row(ratio, registers):
    """As the controller's docstring says."""
    reads = [(64 * index, 1) for index in range(9)]
    bench = Bench(ratio, reads=reads, outstanding=1, outward=registers, inward=registers)
    axi, plan = bench.controller.axi_read, bench.controller.plan
    found = times(bench, axi.ar.valid & axi.ar.ready, axi.r.valid & axi.r.ready, 8000)
    most = 8 + ratio * (8 + plan.timing.cas_latency + plan.burst + plan.pin_cycles)
    assert len(found) == 8
    assert all(most - 1 - ratio < cycles <= most for cycles in found), (most, found)


@pytest.mark.parametrize("ratio", SOME)
@pytest.mark.parametrize("beats", [1, 32])
def test_latency_of_a_response(ratio, beats):
    """Likewise, from the last beat of a burst of one chunk."""
    writes = [(8 * beats * index, beats) for index in range(9)]
    bench = Bench(ratio, writes=writes, outstanding=1, full=True)
    axi, plan = bench.controller.axi_write, bench.controller.plan
    last = axi.w.valid & axi.w.ready & axi.w.payload.last
    found = times(bench, last, axi.b.valid & axi.b.ready, 12000)
    most = 7 + ratio * (7 + (beats - 1) * plan.burst)
    # A refresh may come between, and two banks to open.
    plain = sorted(found)[:4]
    assert len(found) == 8
    assert all(most - 1 - ratio < cycles <= most for cycles in plain), (most, found)


def test_a_slow_writer_stops_no_reader_and_a_slow_reader_no_writer():
    """An address to write whose data never come; then reads that nobody takes."""
    size = 1 << 12
    bench = Bench(75 / 135, reads=straight(8, 32, size))
    aw = bench.controller.axi_write.aw

    async def address_alone(ctx):
        ctx.set(aw.payload, {"id": 0, "addr": 0x8000, "len": 31})
        ctx.set(aw.valid, 1)
        await ctx.tick().until(aw.ready)
        ctx.set(aw.valid, 0)

    bench.background.append(bench.after_reset(address_alone))
    bench.run(5000)

    bench = Bench(75 / 135, writes=straight(8, 32, size, start=0x8000))
    ar = bench.controller.axi_read.ar

    async def reads_alone(ctx):
        ctx.set(ar.payload, {"id": 0, "addr": 0, "len": 31})
        ctx.set(ar.valid, 1)

    bench.background.append(bench.after_reset(reads_alone))
    bench.benches.remove(bench.initiator.receive)
    bench.run(5000)


@pytest.mark.parametrize("ratio", _often((75 / 135, 1, 1 / 4, 4), (75 / 135,)))
@pytest.mark.parametrize("direction", ["reads", "writes"])
def test_answers_that_nobody_takes_wait(ratio, direction):
    """As many bursts as may be under way, taken when all that have a place have come."""
    bursts = straight(8, 32, 1 << 13) if direction == "reads" else straight(8, 1, 512)
    bench = Bench(ratio, outstanding=len(bursts), **{direction: bursts})
    taker = bench.initiator.receive if direction == "reads" else bench.initiator.respond

    async def late(ctx):
        await ctx.tick().repeat(round(3000 * ratio))
        await taker(ctx)

    bench.benches[bench.benches.index(taker)] = late
    bench.run(50000)


@pytest.mark.parametrize("ratio", SOME)
@pytest.mark.parametrize("lost", [1, 40])
def test_a_reset_midway_leaves_nothing(ratio, lost, seed):
    """The lock is lost for a moment: bursts in every stage and queue are forgotten."""
    chance = random.Random(seed)
    # The initialisation takes some 1,150 cycles of the SDRAM.
    when = 30 + round(chance.randrange(1200, 1900) * ratio)
    bench = Bench(
        ratio,
        reads=random_bursts(chance, 6, 8, 1 << 16),
        writes=random_bursts(chance, 6, 8, 1 << 16),
        seed=seed,
    )
    bench.interrupt(when, lost)
    bench.run(30000)
