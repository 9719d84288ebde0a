# amaranth: UnusedElaboratable=no
"""The controller with the SDRAM model: data, rules, efficiency, refreshes."""

import dataclasses
import itertools
import random

import pytest

from matloom.arch.sdram import InvalidSdramError, load_sdram
from matloom_rtl.sdram.controller import SdramController
from matloom_rtl.sdram.initiator import Initiator, random_bursts
from matloom_rtl.sdram.testing import Sdram
from matloom_rtl.testing import cached_unit, simulate, with_reset

#: Part, clock, bus bits, CAS latency, and cycles of the SDRAM in one where they are two.
CASES = [
    ("IS42S16160", 85, 64, 2),
    ("IS42S16160", 140, 64, 3),
    ("MT48LC16M16A2", 100, 32, 2),
    ("AS4C32M16", 75, 128, 2),
    ("W9825G6KH", 133, 32, 3),
    ("2 x M12L16161A", 75, 32, 2),
    ("2 x M12L16161A", 133, 64, 3),
    ("GW2AR-18", 54, 32, 2),
    ("GW2AR-18", 120, 128, 3),
    ("IS42S16160", 71, 64, 3, 2),
    ("IS42S16160", 66, 32, 3, 2),
    ("2 x M12L16161A", 62, 128, 3, 2),
]

#: That of a ULX3S-85F.
GEARED = CASES[9]


class Bench:
    """A controller with a full-size SDRAM; tests use `span` bytes of each bank's first rows."""

    def __init__(self, case=CASES[0], *, span=1 << 16, **options):
        name, mhz, bus_bits, latency, *geared = case
        gear = geared[0] if geared else 1
        wrong, demands = options.pop("wrong", {}), options.pop("demands", {})
        outward, inward = options.pop("outward", 0), options.pop("inward", 0)
        self.part = load_sdram(name)
        truth = self.part.timing(gear * mhz * 10**6, latency)
        # Nobody wants to wait 200 us.
        truth = dataclasses.replace(truth, power_up=gear * 300)
        truth = dataclasses.replace(truth, **demands)
        self.timing = truth
        self.dut = cached_unit(
            SdramController,
            self.part,
            clock_hz=mhz * 10**6,
            bus_bits=bus_bits,
            burst_beats=options.pop("burst_beats", 32),
            pin_cycles=outward + inward,
            timing=dataclasses.replace(truth, **wrong),
            gear=gear,
        )
        self.sdram = Sdram(self.part, truth)
        self.contents = bytearray(random.Random(7).randbytes(span))
        self.sdram.write(0, bytes(self.contents))
        self.initiator = Initiator(self.dut, self.contents, **options)
        at_pins = self.sdram.attach(self.dut.pins, outward=outward, inward=inward)
        self.background = [self.initiator.count, at_pins]

    def simulate(self, limit):
        return simulate(self.dut, *self.initiator.benches, cycles=limit, background=self.background)

    def run(self, limit):
        cycles = self.simulate(limit)
        assert self.sdram.breach == "none", f"{self.sdram.breach} at {self.sdram.breach_edge}"
        assert self.sdram.read(0, len(self.contents)) == bytes(self.contents)
        return cycles


#: Parts of which random traffic runs always: 16 and 32 bits, beats of one column and of four.
ALWAYS = (CASES[0], CASES[5], CASES[6], GEARED)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("stall", [0, 0.4])
@pytest.mark.parametrize(
    "case",
    [case if case in ALWAYS else pytest.param(case, marks=pytest.mark.slow) for case in CASES],
    ids=lambda case: "-".join(map(str, case)),
)
def test_random_traffic(case, stall, seed):
    chance = random.Random(seed)
    width = case[2] // 8
    Bench(
        case,
        reads=random_bursts(chance, 24, width, 1 << 16),
        writes=random_bursts(chance, 24, width, 1 << 16),
        stall=stall,
        seed=seed,
    ).run(60000)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("case", "outward", "inward"),
    [(CASES[0], 1, 0), (CASES[0], 1, 1), (CASES[0], 1, 2), (GEARED, 3, 2)],
)
def test_registers_at_the_pins(case, outward, inward, seed):
    chance = random.Random(seed)
    Bench(
        case,
        reads=random_bursts(chance, 12, 8, 1 << 16),
        writes=random_bursts(chance, 12, 8, 1 << 16),
        outward=outward,
        inward=inward,
    ).run(20000)


@pytest.mark.slow
def test_bursts_around_the_cuts():
    """Bursts of 1 to 256 beats start and end near chunk boundaries and the end of a 4 KiB page."""
    places = [
        (page * 4096 + 8 * start, beats)
        for page, (start, beats) in enumerate(
            itertools.product((0, 1, 31, 32, 63), (1, 2, 31, 32, 33, 34, 65))
        )
    ]
    places += [(36 * 4096, 512 - 256), (37 * 4096 + 2048, 256), (38 * 4096 + 4088, 1)]
    Bench(reads=places, writes=[*places[1:], places[0]], span=1 << 18).run(30000)


def test_a_burst_of_several_chunks_owes_one_response():
    """Eight bursts, 24 chunks in all, need a place for a response per burst, not per chunk."""
    Bench(writes=[(1024 * index, 65) for index in range(8)]).run(5000)


def wait(cycles):
    """Return a bench that lets time pass."""

    async def bench(ctx):
        await ctx.tick().repeat(cycles)

    return bench


def straight(width, beats, size, start=0):
    """Return consecutive full bursts with a total number of bytes."""
    step = width * beats
    return [(start + place, beats) for place in range(0, size, step)]


def efficiency(bench):
    """Run a bench; return the columns per SDRAM cycle from the first command to the last."""
    seen = []

    async def watch(ctx):
        pins = bench.dut.pins
        while True:
            _clk, _rst, cas, ras = await ctx.tick().sample(pins.cas, pins.ras)
            seen.append(cas & ~ras & 1)

    bench.background.append(watch)
    bench.run(30000)
    plan = bench.dut.plan
    first, last = seen.index(1), len(seen) - seen[::-1].index(1) - 1
    return bench.sdram.counts["columns"] / (plan.gear * (last - first + plan.burst))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "reads", "writes", "least"),
    [
        (CASES[0], 1, 0, 0.95),
        (CASES[0], 0, 1, 0.95),
        (CASES[0], 1, 1, 0.92),
        (CASES[6], 1, 0, 0.95),
        (CASES[6], 1, 1, 0.9),
        (CASES[7], 1, 0, 0.95),
        (CASES[7], 0, 1, 0.95),
        (CASES[7], 1, 1, 0.9),
        (GEARED, 1, 0, 0.95),
        (GEARED, 0, 1, 0.95),
        (GEARED, 1, 1, 0.9),
    ],
)
def test_efficiency(case, reads, writes, least):
    """Long transfers, with refreshes, reach at least `least` columns per SDRAM cycle."""
    width, size = case[2] // 8, 1 << 13
    bench = Bench(
        case,
        reads=straight(width, 32, size) if reads else (),
        # In the other half of the same bank's row, or another row.
        writes=straight(width, 32, size, start=3 * size) if writes else (),
        full=True,
    )
    share = efficiency(bench)
    assert bench.sdram.counts["columns"] == (reads + writes) * size * 8 // bench.part.data_bits
    print(case, reads, writes, f"{share:.1%}")
    assert share >= least


def test_rows_open_while_columns_come_in_every_cycle():
    """Each burst is in another bank, whose row is opened during the burst before it."""
    case = CASES[7]
    row_bytes = load_sdram(case[0]).row_bytes
    bench = Bench(case, reads=[(row_bytes * index, 32) for index in range(48)], full=True)
    assert bench.dut.plan.burst == 1
    # A burst of 32 beats costs an ACTIVATE and a PRECHARGE, and refreshes cost some cycles.
    assert efficiency(bench) >= 0.93


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[2], GEARED])
def test_latency_of_an_open_row(case):
    """The latency is as documented, for each CAS latency and each length of a beat."""
    bench = Bench(case, reads=[(0, 1), (64, 1), (8, 1)], outstanding=1)
    asked, came = [], []

    async def watch(ctx):
        axi, cycle = bench.dut.axi_read, 0
        while True:
            _clk, _rst, ar, r = await ctx.tick().sample(axi.ar.valid & axi.ar.ready, axi.r.valid)
            cycle += 1
            asked.extend([cycle] * ar)
            came.extend([cycle] * r)

    bench.background.append(watch)
    bench.run(5000)
    plan = bench.dut.plan
    assert came[1] - asked[1] == 10 + (2 if plan.gear == 2 else case[3]) + plan.burst


#: A bus as wide as the SDRAM, so that short bursts follow each other closely.
NARROW = ("GW2AR-18", 140, 32, 3)

#: What the SDRAM demands beyond its table, what the controller keeps instead of that, and what the
#: SDRAM says. tMRD is covered by the controller's own cycles, and tRRD, up to four.
BROKEN_RULES = [
    (CASES[1], {}, {"rcd": 2}, "tRCD"),
    (CASES[1], {}, {"rp": 2}, "tRP"),
    (NARROW, {}, {"ras": 6, "rc": 9}, "tRAS"),
    (NARROW, {"rc": 11}, {"rc": 10}, "tRC"),
    (CASES[1], {}, {"rfc": 9}, "tRFC"),
    (CASES[1], {}, {"wr": 2}, "tWR"),
    (NARROW, {"rrd": 5}, {"rrd": 4}, "tRRD"),
    (CASES[1], {}, {"cas_latency": 2}, "mode"),
    (CASES[0], {}, {"refresh_due": 1500}, "refresh"),
    (CASES[0], {}, {"initial_refreshes": 7}, "initialise"),
    (CASES[0], {"power_up": 700}, {"power_up": 662}, "power-up"),
    # A wait is whole cycles of the controller: one of them less.
    (GEARED, {"rcd": 5}, {"rcd": 4}, "tRCD"),
    (GEARED, {}, {"rp": 2}, "tRP"),
    (GEARED, {}, {"rfc": 8}, "tRFC"),
    (GEARED, {}, {"wr": 1}, "tWR"),
    (GEARED, {}, {"initial_refreshes": 7}, "initialise"),
]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("case", "demands", "kept", "rule"), BROKEN_RULES, ids=lambda value: str(value)
)
def test_a_wait_too_short_is_noticed(case, demands, kept, rule):
    """The model reports each wait that the controller keeps too short."""
    chance = random.Random(1)
    # Rows of the same banks, hit with single beats at random.
    traffic = [
        [(chance.randrange(64) * 1024, chance.choice((1, 1, 1, 8))) for _ in range(60)]
        for _ in range(2)
    ]
    bench = Bench(case, reads=traffic[0], writes=traffic[1], wrong=kept, demands=demands)
    bench.initiator.benches.append(wait(3500))
    try:
        bench.simulate(8000)
    except AssertionError:
        # Data may be wrong, too.
        assert bench.sdram.breach != "none"
    assert bench.sdram.breach == rule


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("case", "demands"), {(row[0], tuple(row[1].items())) for row in BROKEN_RULES}
)
def test_the_same_traffic_keeps_all_rules(case, demands):
    demands = dict(demands)
    demands.pop("rrd", None)
    chance = random.Random(1)
    traffic = [[(chance.randrange(64) * 1024, 1) for _ in range(60)] for _ in range(2)]
    Bench(case, reads=traffic[0], writes=traffic[1], demands=demands).run(8000)


@pytest.mark.slow
def test_a_reset_midway_leaves_nothing(seed):
    """Bursts in every stage are dropped, with their beats and responses."""
    chance = random.Random(seed)
    for _ in range(3):
        when = chance.randrange(330, 900)
        bench = Bench(
            reads=random_bursts(chance, 6, 8, 1 << 16),
            writes=random_bursts(chance, 6, 8, 1 << 16),
            seed=seed,
        )
        started = []
        dut = bench.dut
        bench.dut, reset = with_reset(dut)

        async def disturb(ctx, when=when, bench=bench, dut=dut, reset=reset, started=started):
            sdram = bench.sdram
            channels = (dut.axi_read.ar, dut.axi_write.aw, dut.axi_write.w)
            for channel in channels:
                ctx.set(channel.valid, 1)
            ctx.set(dut.axi_read.ar.payload.len, 20)
            ctx.set(dut.axi_write.aw.payload.len, 20)
            await ctx.tick().repeat(when)
            for channel in channels:
                ctx.set(channel.valid, 0)
            assert sdram.breach == "none"
            ctx.set(reset, 1)
            await ctx.tick().repeat(2)
            ctx.set(reset, 0)
            # A write may have been cut short, which is no breach now.
            sdram.power_up()
            sdram.write(0, bytes(bench.contents))
            started.append(when)

        def later(run, started=started):
            async def wait(ctx):
                while not started:
                    await ctx.tick()
                await run(ctx)

            return wait

        # The initiator draws its bytes when it asks, after the reset.
        bench.initiator.benches = [disturb, *(later(run) for run in bench.initiator.benches)]
        bench.run(12000)


@pytest.mark.slow
def test_a_slow_writer_stops_no_reader_and_a_slow_reader_no_writer():
    """Reads proceed past a write without data, and writes past reads that nobody accepts."""
    size = 1 << 12
    bench = Bench(reads=straight(8, 32, size))
    dut = bench.dut

    async def address_alone(ctx):
        ctx.set(dut.axi_write.aw.payload, {"id": 0, "addr": 0x8000, "len": 31})
        ctx.set(dut.axi_write.aw.valid, 1)
        await ctx.tick().until(dut.axi_write.aw.ready)
        ctx.set(dut.axi_write.aw.valid, 0)

    bench.background.append(address_alone)
    bench.run(5000)

    bench = Bench(writes=straight(8, 32, size, start=0x8000))
    dut = bench.dut

    async def reads_alone(ctx):
        ctx.set(dut.axi_read.ar.payload, {"id": 0, "addr": 0, "len": 31})
        ctx.set(dut.axi_read.ar.valid, 1)
        await ctx.tick().until(dut.axi_read.ar.ready)

    bench.background.append(reads_alone)
    bench.initiator.benches.remove(bench.initiator.receive)
    bench.run(5000)


@pytest.mark.slow
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("case", "withheld"),
    [(CASES[0], "b"), (CASES[0], "r"), (CASES[0], "rb"), (GEARED, "b")],
    ids=lambda value: value if isinstance(value, str) else f"{value[1]}_mhz",
)
def test_unread_answers_are_kept(case, withheld, seed):
    """An arbiter's maximum of bursts; no answer is accepted until all have arrived.

    The controller has room for that many answers, and starts no further burst.
    """
    chance, end = random.Random(seed), 1500

    def bursts(start):
        beats = chance.choices((1, 1, 1, 2, 40), k=30)
        return [(start + 1024 * chance.randrange(64), count) for count in beats]

    bench = Bench(
        case,
        # Directions lie apart, or the initiator would not ask for all.
        reads=bursts(0),
        writes=bursts(1 << 16),
        span=1 << 17,
        outstanding=32,
        not_ready_cycles=dict.fromkeys(withheld, end),
        seed=seed,
    )
    dut, asked = bench.dut, {"r": 0, "b": 0}

    async def watch(ctx):
        ar, aw = dut.axi_read.ar, dut.axi_write.aw
        while True:
            _clk, _rst, read, write = await ctx.tick().sample(
                ar.valid & ar.ready, aw.valid & aw.ready
            )
            if bench.initiator.cycle < end:
                asked["r"] += read
                asked["b"] += write

    bench.background.append(watch)
    bench.run(12000)
    # More wait behind the controller's places than it has.
    assert all(asked[channel] > 8 for channel in withheld)


def refreshes(bench, cycles):
    """Run a bench for at least so many cycles; return when it refreshed after the start-up."""
    edges = []

    async def watch(ctx):
        pins, cycle = bench.dut.pins, 0
        while True:
            _clk, _rst, ras, cas, we = await ctx.tick().sample(pins.ras, pins.cas, pins.we)
            cycle += 1
            edges.extend([cycle] * (ras & cas & ~we & 1))

    bench.background.append(watch)
    bench.initiator.benches.append(wait(cycles))
    bench.run(2 * cycles)
    return edges[bench.timing.initial_refreshes :]


def test_an_idle_controller_refreshes_exactly_on_time():
    bench = Bench()
    due = bench.timing.refresh_due
    edges = refreshes(bench, 4000)
    assert len(edges) >= 4
    assert {after - before for before, after in itertools.pairwise(edges)} == {due}


@pytest.mark.slow
def test_a_busy_controller_refreshes_no_later_than_the_longest_wait():
    bench = Bench(reads=straight(8, 32, 1 << 15))
    due = bench.timing.refresh_due
    edges = refreshes(bench, 10000)
    late = [edge - edges[0] - index * due for index, edge in enumerate(edges)]
    assert len(edges) >= 8000 // due
    assert max(late) - min(late) < bench.dut.plan.longest_wait < due


FAST = load_sdram("IS42S16160").timing(85_000_000)
SLOW = dataclasses.replace(load_sdram("IS42S16160").timing(85_000_000), rrd=5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bus_bits": 256}, "bus_bits must be 32, 64 or 128, not 256"),
        ({"burst_beats": 24}, "chunk_beats must be a power of two, 2 to 128, not 24"),
        ({"burst_beats": 256}, "chunk_beats must be a power of two, 2 to 128, not 256"),
        ({"pin_cycles": 6}, "pin_cycles must be 0 to 5, not 6"),
        ({"gear": 3, "timing": FAST}, "gear must be 1 or 2, not 3"),
        ({"gear": 2, "timing": FAST}, "cas_latency must be 3 with a gear of 2, not 2"),
        (
            {"gear": 2, "clock_hz": 70_000_000, "part": "2 x M12L16161A", "bus_bits": 32},
            "bus_bits must be 32, 64 or 128 and 64 at least with a gear of 2, not 32",
        ),
        ({"timing": SLOW}, "rrd must be at most 4 cycles, not 5"),
        ({"clock_hz": 25_000_000}, "chunk_beats must let a refresh in every 195 cycles, not 128"),
    ],
)
def test_parameters_that_cannot_be_are_refused(changes, message):
    options = {"clock_hz": 85_000_000, "bus_bits": 64, "burst_beats": 128} | changes
    part = load_sdram(options.pop("part", "IS42S16160"))
    with pytest.raises(InvalidSdramError, match=message):
        SdramController(part, **options)
