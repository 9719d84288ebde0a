"""LOAD, compared with loops over bytes: alignments, widths, cycles, stalls, errors, halt."""

import random
from dataclasses import replace

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom_rtl.bus.testing import AxiMemory
from matloom_rtl.dma.load import Load
from matloom_rtl.dma.testing import CommandDriver, SpadPort, with_bases
from matloom_rtl.testing import cached_unit, simulate

BASES = (0x0000, 0x1000, 0x2000, 0x2100)
DRAM_BYTES = 0x8000
SPAD_BYTES = 0x2000
BUSES = [32, 64, 128, 256]


def make_config(bus_bits=64):
    return Config(bus_bits=bus_bits, burst_beats={32: 16, 64: 32, 128: 32, 256: 16}[bus_bits])


def linear(offset, size, spad, **other):
    return {
        "dram_offset": offset,
        "spad_addr": spad,
        "row_bytes": size,
        "rows": 1,
        "planes": 1,
    } | other


def reference(bodies, dram, spad):
    """Execute an instruction by the definition of its fields."""
    for body in bodies:
        get = {"region": 0, "fill": 0}.__or__(body).get
        for plane in range(get("planes")):
            for row in range(get("rows")):
                source = (
                    BASES[get("region")]
                    + get("dram_offset")
                    + row * get("dram_row_step", 0)
                    + plane * get("dram_plane_step", 0)
                )
                target = (
                    get("spad_addr")
                    + row * get("spad_row_step", 0)
                    + plane * get("spad_plane_step", 0)
                )
                for index in range(get("row_bytes")):
                    value = get("fill_value") if get("fill") else dram[source + index]
                    spad[target + (index << get("spread", 0))] = value
    return spad


class Bench:
    """A Load between memories; `run` executes instructions and compares the scratchpad."""

    def __init__(self, config, bodies, *, stall=0.0, memory_stall=0.0, spad_stall=0.0, **memory):
        chance = random.Random(5)
        self.bodies = bodies
        self.dut = dut = cached_unit(Load, config)
        self.chip = cached_unit(with_bases, dut, BASES)
        self.dram = chance.randbytes(DRAM_BYTES)
        self.before = bytearray(chance.randbytes(SPAD_BYTES))
        self.memory = AxiMemory(
            dut.axi, self.dram, burst_beats=config.burst_beats, stall=memory_stall, **memory
        )
        self.spad = SpadPort(dut.spad_write, bytearray(self.before), stall=spad_stall)
        self.commands = CommandDriver(dut.unit, bodies, stall=stall)

    def run(self, limit=20000):
        cycles = simulate(
            self.chip,
            self.commands.issue,
            cycles=limit,
            background=(self.memory.read, self.spad.write),
        )
        assert self.spad.contents == reference(self.bodies, self.dram, bytearray(self.before))
        assert [timestamp for _, timestamp in self.commands.done] == [
            body.get("timestamp", 0) for body in self.bodies
        ]
        return cycles


def random_body(chance, last_spread=0):
    """Return rows within the memory sizes above, with strides in both memories."""
    rows, planes = chance.randrange(1, 5), chance.randrange(1, 4)
    spread = chance.randint(0, last_spread)
    return {
        "timestamp": chance.randrange(64),
        "region": chance.randrange(4),
        "fill": chance.random() < 0.15,
        "fill_value": chance.randrange(256),
        "dram_offset": chance.randrange(0x1000),
        "spad_addr": chance.choice((0, 1, chance.randrange(0x800))),
        "row_bytes": chance.choice((1, 2, 9, 31, 64, chance.randrange(1, 400 >> spread // 2))),
        "spread": spread,
        "rows": rows,
        "planes": planes,
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
    bodies = [random_body(chance) for _ in range(8)]
    bench = Bench(
        make_config(bus_bits),
        bodies,
        stall=stall,
        memory_stall=memory_stall,
        spad_stall=spad_stall,
        seed=3,
    )
    bench.run()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("bus_bits", BUSES)
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_random_spread_transfers(bus_bits, stall):
    config = make_config(bus_bits)
    chance = random.Random(bus_bits + 2)
    bodies = [random_body(chance, config.last_spread) for _ in range(14)]
    stalls = dict.fromkeys(("stall", "memory_stall", "spad_stall"), stall)
    Bench(config, bodies, **stalls, seed=3).run()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("bus_bits", BUSES)
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_without_strides_dense_rows_take_the_same_cycles(bus_bits, stall):
    config = make_config(bus_bits)
    chance = random.Random(bus_bits + 3)
    bodies = [random_body(chance) for _ in range(14)]
    without = [{name: each[name] for name in each if name != "spread"} for each in bodies]
    stalls = dict.fromkeys(("stall", "memory_stall", "spad_stall"), stall)
    cycles = Bench(config, bodies, **stalls, seed=3).run()
    assert Bench(replace(config, element_stride=0), without, **stalls, seed=3).run() == cycles > 100


def test_rows_between_the_bytes_of_rows():
    """Interleave four rows into four bytes per position: a dense tensor of four channels."""
    planes = {"planes": 4, "dram_plane_step": 10, "spad_plane_step": 1}
    rows = {"rows": 20, "dram_row_step": 20, "spad_row_step": 40}
    Bench(make_config(), [linear(4, 10, 64, spread=2, **rows, **planes)]).run()


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("bus_bits", "spread"),
    [(bits, each) for bits in BUSES for each in range(1, make_config(bits).last_spread + 1)],
)
def test_a_spread_beat_takes_a_write_per_byte_of_spread(bus_bits, spread):
    config = make_config(bus_bits)
    bench = Bench(config, [linear(0, 960, 3, spread=spread), linear(960, 64, 0)])
    bench.run()
    pieces = 960 * (1 << spread) // config.bus_bytes
    first = bench.spad.grants[0]
    assert bench.spad.grants == list(range(first, first + pieces + 64 // config.bus_bytes))


def test_nothing_is_written_after_a_spread_row():
    """Ten bytes from byte 2 on: four pieces of two bytes, and two more at spread four."""
    bench = Bench(make_config(), [linear(2, 10, 0, spread=2)])
    bench.run()
    assert len(bench.spad.grants) == 6


def test_spread_fill():
    body = linear(0, 100, 3, spread=1, fill=1, fill_value=0x80, rows=2, spad_row_step=1)
    bench = Bench(make_config(), [body])
    assert bench.run() <= 2 * 25 + 11
    assert bench.memory.bursts == []


@pytest.mark.parametrize("bus_bits", BUSES)
def test_every_alignment(bus_bits):
    step = bus_bits // 8
    bodies = [
        linear(4096 - 2 * step + shift, step + size, 200 + 150 * index + shift % 3)
        for index, (shift, size) in enumerate((a, b) for a in range(step) for b in (1, 2 * step))
    ][:48]
    Bench(make_config(bus_bits), bodies).run()


def test_first_write_may_start_below_zero():
    Bench(make_config(), [linear(7, 20, 0), linear(5, 1, 1)]).run()


def test_long_linear_load_takes_a_beat_a_cycle():
    cycles = Bench(make_config(), [linear(0, 4096, 0)]).run()
    assert 32 + 512 <= cycles <= 32 + 512 + 10


def test_instructions_follow_without_a_gap():
    bodies = [linear(256 * index, 256, 256 * index, timestamp=index) for index in range(16)]
    bench = Bench(make_config(), bodies)
    assert bench.run() <= 32 + 16 * 32 + 10
    assert bench.spad.grants == list(range(bench.spad.grants[0], bench.spad.grants[0] + 512))


def test_done_comes_when_the_last_write_is_visible():
    bench = Bench(make_config(), [linear(0, 64, 0), linear(64, 8, 64)])
    bench.run()
    assert [cycle for cycle, _ in bench.commands.done] == [
        bench.spad.grants[7] + 3,
        bench.spad.grants[8] + 3,
    ]


def test_short_rows_overlap_their_latencies():
    body = linear(3, 9, 0, rows=32, dram_row_step=128, spad_row_step=9)
    bench = Bench(make_config(), [body])
    # Eight bursts on their way: a quarter of the rows for each latency and a little.
    assert bench.run() <= 4 * (32 + 8) + 16
    assert bench.memory.most_outstanding == 8


def test_next_instruction_is_taken_early():
    bench = Bench(make_config(), [linear(0, 256, 0), linear(256, 256, 256)])
    bench.run()
    # Each with its only row, as soon as that is worked out; no beat has come by then.
    assert bench.commands.taken == [2, 5]


def test_constants_are_distinguished_from_inputs():
    """Constants come from region 0; a fill reads nothing, whatever its region."""
    fill = linear(0, 256, 512, fill=1)
    bodies = [linear(0, 256, 0), linear(0, 256, 256, region=1), fill, linear(0, 256, 768)]
    bench = Bench(make_config(), bodies)
    told = []

    async def watch(ctx):
        write, constants = bench.dut.spad_write, bench.dut.constants
        was_busy = False
        while True:
            _, _, valid, ready, busy, told_now = await ctx.tick().sample(
                write.valid, write.ready, bench.dut.unit.busy, constants
            )
            # A cycle after the first instruction is shown it is known, before the first beat.
            if was_busy and not told:
                assert told_now
            was_busy = busy
            if valid and ready:
                # This, too, follows the burst that is awaited by a cycle.
                told.append(told_now)

    cycles = simulate(
        bench.chip,
        bench.commands.issue,
        cycles=1000,
        background=(bench.memory.read, bench.spad.write, watch),
    )
    assert cycles < 1000
    assert told == [1] * 32 + [0] * 64 + [1] * 32


def test_fill_needs_no_memory():
    body = linear(0, 1000, 3, fill=1, fill_value=0x80, rows=2, spad_row_step=1003)
    bench = Bench(make_config(), [body])
    assert bench.run() <= 2 * 125 + 10
    assert bench.memory.bursts == []


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
        background=(bench.memory.read, bench.spad.write, watch),
    )
    assert set(seen) == {(Fault.AXI_READ, 0x100)}
    assert len(bench.commands.done) == 1


@pytest.mark.parametrize("beat", [0, 1, 30, 31])
def test_error_of_any_one_beat_is_reported_a_cycle_after_it(beat):
    bench = Bench(make_config(), [linear(0, 512, 0)], broken_beats=[0x100 + 8 * beat])
    taken, seen = [], []

    async def watch(ctx):
        fault, r, cycle = bench.dut.fault, bench.dut.axi.r, 0
        while True:
            _, _, beats, valid, cause, address = await ctx.tick().sample(
                r.valid & r.ready, fault.valid, fault.cause, fault.address
            )
            if beats:
                taken.append(cycle)
            if valid:
                seen.append((cycle, cause, address))
            cycle += 1

    simulate(
        bench.chip,
        bench.commands.issue,
        cycles=400,
        background=(bench.memory.read, bench.spad.write, watch),
    )
    assert seen == [(taken[32 + beat] + 1, Fault.AXI_READ, 0x100)]


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("bus_bits", [32, 64, 256])
@pytest.mark.parametrize("spad_stall", [0.0, 0.8])
@pytest.mark.parametrize("spread", [0, 2])
def test_error_counts_unfinished_loads_before_it(bus_bits, spad_stall, spread):
    """With the completions so far, this gives the number of the LOAD at fault."""
    chance = random.Random(bus_bits)
    starts, bodies, at = [], [], 0
    for index in range(12):
        size = chance.choice((1, 8, 200))
        fill = chance.random() < 0.2
        bodies.append(linear(at, size, 600 * index, fill=fill, fill_value=3, spread=spread))
        starts.append(None if fill else BASES[0] + at)
        at += 1024
    bench = Bench(
        make_config(bus_bits), bodies, spad_stall=spad_stall, broken=[s for s in starts if s]
    )
    seen = []

    async def watch(ctx):
        dut, completed = bench.dut, 0
        while True:
            _, _, valid, address, ahead, done = await ctx.tick().sample(
                dut.fault.valid, dut.fault.address, dut.fault_ahead, dut.unit.done
            )
            if valid:
                seen.append((address, completed + ahead))
            completed += done

    simulate(
        bench.chip,
        bench.commands.issue,
        cycles=20000,
        background=(bench.memory.read, bench.spad.write, watch),
    )
    assert set(seen) == {(start, index) for index, start in enumerate(starts) if start}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("when", [3, 4, 20, 37, 60, 90])
@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("spread", [0, 2])
def test_halt_then_reset_then_again(when, stall, spread):
    bodies = [linear(8 * index, 300, 1500 * index, spread=spread) for index in range(4)]
    bench = Bench(make_config(), bodies, memory_stall=stall, spad_stall=stall)
    dut = bench.dut
    reset = Signal()
    timestamps = {}

    async def stop(ctx):
        await ctx.tick().repeat(when)
        ctx.set(dut.halt, 1)
        # Grants and bursts of the cycle before are noted in this instant.
        await ctx.delay(1e-9)
        timestamps["writes"], timestamps["bursts"] = (
            len(bench.spad.grants),
            len(bench.memory.bursts),
        )
        await ctx.tick()
        await ctx.tick().until(dut.quiet)
        assert bench.memory.outstanding == 0
        assert len(bench.spad.grants) == timestamps["writes"]
        assert len(bench.memory.bursts) <= timestamps["bursts"] + 1
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
        background=(offer_until_halt(dut, bodies), bench.memory.read, bench.spad.write),
    )
    assert bench.spad.contents == reference(bodies, bench.dram, bytearray(bench.before))


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


def test_halt_while_the_scratchpad_refuses_everything():
    bench = Bench(make_config(), [linear(0, 600, 0)], spad_stall=1.0)

    async def stop(ctx):
        await ctx.tick().repeat(50)
        ctx.set(bench.dut.halt, 1)
        await ctx.tick().repeat(2)
        await ctx.tick().until(bench.dut.quiet)

    simulate(
        bench.chip,
        stop,
        cycles=500,
        background=(bench.commands.issue, bench.memory.read, bench.spad.write),
    )
    assert bench.memory.outstanding == 0
    assert bench.spad.contents == bench.before


@pytest.mark.parametrize("spread", [0, 1])
def test_progress_is_a_beat_or_a_write_of_the_cycle_before(spread):
    """A stuck bus or scratchpad makes no progress, so that the watchdog can notice."""
    bodies = [linear(0, 200, 0, spread=spread), linear(300, 40, 900)]
    bench = Bench(make_config(), bodies, memory_stall=0.5, spad_stall=0.7)
    dut, moved, told = bench.dut, [], []

    async def watch(ctx):
        r, write = dut.axi.r, dut.spad_write
        while True:
            _, _, beat, granted, progress = await ctx.tick().sample(
                r.valid & r.ready, write.valid & write.ready, dut.unit.progress
            )
            moved.append(beat | granted)
            told.append(progress)

    simulate(
        bench.chip,
        bench.commands.issue,
        cycles=3000,
        background=(bench.memory.read, bench.spad.write, watch),
    )
    assert told[1:] == moved[:-1]
    assert 0 < sum(moved) < len(moved) // 2
