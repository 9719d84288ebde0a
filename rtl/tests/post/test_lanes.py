"""Lanes, compared with the number rules: beats of vectors, room for results, cycles, stalls."""

import dataclasses
import itertools
import random

import pytest

from matloom.arch.config import Config
from matloom.arch.isa import Destination, Table
from matloom.arch.numerics import SUPPORTED_ROUNDINGS, add_bias, clamp, requantize
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.lanes import PLACES, Lanes
from matloom_rtl.post.tables import Tables
from matloom_rtl.testing import cached_unit, simulate, with_reset

CONFIGS = {
    "4_by_2": Config(rows=4, columns=4, broadcast_group=4, lanes=2, acc_bytes=1024),
    "8_by_1": Config(rows=8, columns=8, broadcast_group=8, lanes=1, acc_bytes=2048),
    "8_by_8": Config(rows=8, columns=8, broadcast_group=8, lanes=8, acc_bytes=2048),
    "12_by_3": Config(
        rows=12,
        columns=12,
        broadcast_group=4,
        lanes=3,
        acc_bytes=768,
        mac_modes=("i8xi8", "i16xi8"),
    ),
}
#: Cycles between two vectors that enter while `parameters.ready` is low after a block.
AWAY = 5


def draw(generator, config, **fixed):
    """Return a random command, and its vectors, each with the parameters of its block."""
    command = {
        "rounding": generator.choice(SUPPORTED_ROUNDINGS),
        "pre_shift": generator.choice((0, 20)),
        "destination": generator.choice(tuple(Destination)),
        "table": Table.NONE,
        "output_zero": generator.randint(-128, 127),
        **fixed,
    }
    vectors = []
    for _block in range(4):
        parameters = [
            (
                generator.randint(-(2**20), 2**20),
                generator.randint(2**30, 2**31 - 1),
                generator.randint(-20, 3),
            )
            for _column in range(config.columns)
        ]
        size = generator.randint(1, 9)
        for number in range(size):
            values = [generator.randint(-(2**24), 2**24) for _ in range(config.columns)]
            vectors.append((values, parameters, number == size - 1))
    return command, vectors


def packed(values, bits):
    return sum((value & (1 << bits) - 1) << bits * index for index, value in enumerate(values))


def expected(command, vector, table=None):
    """Return a vector's expected results, truncated to the destination's element size."""
    results = []
    for value, (bias, multiplier, shift) in zip(vector[0], vector[1], strict=True):
        rounding = command["rounding"]
        biased = add_bias(value, bias, rounding)
        result = requantize(biased, multiplier, shift, rounding, command["pre_shift"])
        if command["destination"] == Destination.SPAD:
            result = clamp(result + command["output_zero"], -100, 110) & 255
            result = table[result] if table else result
        results.append(result & 0xFFFFFFFF)
    return results


def show_parameters(ctx, dut, config, block, later):
    """Give each lane the parameters of its beat; return the multipliers, due later."""
    multipliers = []
    for lane in range(config.lanes):
        beat = ctx.get(dut.parameters.beats[lane])
        bias, multiplier, shift = block[beat * config.lanes + lane]
        ctx.set(dut.parameters.biases[lane], bias)
        ctx.set(dut.parameters.shifts[lane], shift)
        ctx.set(dut.parameters.multipliers[lane], later[1][lane])
        multipliers.append(multiplier)
    return [*later[1:], multipliers]


def run(config, command, vectors, seed, *, scarce=0.0, away=0.0, slow=0.0, reset_at=None, table=()):
    """Check all results; return the cycles of first beats and of results."""
    chance, dut = random.Random(seed), cached_unit(Lanes, config)
    wrapped, reset = with_reset(dut)
    entered, completed, waiting, vector = [], [], [], []
    state = {"live": reset_at is None, "cycle": 0, "parameters": vectors[0][1]}

    def show(ctx, vector):
        values, _parameters, ends = vector
        ctx.set(dut.vectors.payload.values, packed(values, 32))
        ctx.set(dut.vectors.payload.ends_block, ends)
        state["parameters"] = vector[1]

    async def settle(ctx, settings):
        ctx.set(dut.command, settings)
        ctx.set(dut.numbers.low, -100 if not table else -128)
        ctx.set(dut.numbers.high, 110 if not table else 127)
        await ctx.tick().repeat(3)

    async def feed(ctx):
        await settle(ctx, command)
        if reset_at is not None:
            show(ctx, vectors[-1])
            ctx.set(dut.vectors.valid, 1)
            ctx.set(dut.parameters.ready, 1)
            await ctx.tick().repeat(reset_at)
            ctx.set(dut.vectors.valid, 0)
            ctx.set(dut.parameters.ready, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            await ctx.tick()
            for each in (completed, waiting, vector):
                each.clear()
        state.update(live=True, cycle=0)
        for given in vectors:
            show(ctx, given)
            ctx.set(dut.parameters.ready, 1)
            ctx.set(dut.vectors.valid, 0)
            while chance.random() < scarce:
                await ctx.tick()
            ctx.set(dut.vectors.valid, 1)
            while True:
                cycle = state["cycle"]
                # Other parameters from the release on, after some cycles.
                if ctx.get(dut.parameters.release):
                    ctx.set(dut.parameters.ready, chance.random() >= away)
                _clock, _reset, taken, left = await ctx.tick().sample(
                    dut.vectors.ready, dut.parameters.release
                )
                if taken:
                    break
            entered.append(cycle)
            assert left == given[2]
            ctx.set(dut.vectors.valid, 0)

    async def count(ctx):
        while True:
            await ctx.tick()
            state["cycle"] += 1

    async def parameters(ctx):
        later = [[0] * config.lanes] * (Lane.MULTIPLIER_DELAY + 1)
        while True:
            later = show_parameters(ctx, dut, config, state["parameters"], later)
            await ctx.tick()

    async def collect(ctx):
        while len(completed) < len(vectors) or not state["live"]:
            ctx.set(dut.written, bool(waiting) and chance.random() >= slow)
            if ctx.get(dut.written):
                waiting.pop(0)
            cycle = state["cycle"]
            _clock, _reset, emerges, results = await ctx.tick().sample(dut.emerges, dut.results)
            if emerges:
                assert emerges == 1 << len(vector) // config.lanes
                vector.extend(results[lane] for lane in range(config.lanes))
            if len(vector) == config.columns:
                completed.append(cycle)
                waiting.append(None)
                assert len(waiting) <= PLACES
                if state["live"]:
                    bits = 8 if command["destination"] == Destination.SPAD else 32
                    found = [result & (1 << bits) - 1 for result in vector]
                    assert found == expected(command, vectors[len(completed) - 1], table)
                vector.clear()

    simulate(wrapped, feed, collect, cycles=6000, background=[count, parameters])
    return entered, completed


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("destination", Destination)
def test_steady(seed, name, destination):
    """A beat enters in each cycle, and each result comes after its latency."""
    config, generator = CONFIGS[name], random.Random(seed)
    command, vectors = draw(generator, config, destination=destination)
    entered, completed = run(config, command, vectors, seed)
    beats = config.columns // config.lanes
    assert {after - before for before, after in itertools.pairwise(entered)} == {beats}
    latencies = {done - taken for taken, done in zip(entered, completed, strict=True)}
    # From the last beat; the beat enters a lane in its own cycle.
    assert latencies == {Lane.LATENCY}


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(
    ("scarce", "away", "slow"), [(0.6, 0, 0), (0, 0.7, 0), (0, 0, 0.9), (0.4, 0.4, 0.6)]
)
def test_stalls(seed, name, scarce, away, slow):
    config, generator = CONFIGS[name], random.Random(seed)
    for rounding in SUPPORTED_ROUNDINGS:
        command, vectors = draw(generator, config, rounding=rounding)
        run(config, command, vectors, seed, scarce=scarce, away=away, slow=slow)


@pytest.mark.parametrize("name", ["4_by_2", "8_by_8"])
def test_no_more_vectors_than_places(seed, name):
    """If no result is taken, exactly as many vectors enter as there are places."""
    dut, entered = Lanes(CONFIGS[name]), []

    async def bench(ctx):
        ctx.set(dut.parameters.ready, 1)
        ctx.set(dut.vectors.valid, 1)
        entered.extend([(await ctx.tick().sample(dut.last_beat))[2] for _ in range(100)])
        assert sum(entered) == PLACES
        ctx.set(dut.written, 1)
        await ctx.tick()
        ctx.set(dut.written, 0)
        entered.extend([(await ctx.tick().sample(dut.last_beat))[2] for _ in range(20)])
        assert sum(entered) == PLACES + 1

    simulate(dut, bench, cycles=200)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("tables", [1, 2])
@pytest.mark.parametrize("name", ["4_by_2", "8_by_8"])
def test_tables(seed, name, tables):
    """Rows fill the table; bytes are looked up one cycle later."""
    config, generator = dataclasses.replace(CONFIGS[name], tables=tables), random.Random(seed)
    dut, size = Lanes(config), config.table_row_bytes
    contents = generator.sample(range(256), 256)

    async def fill(ctx):
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        ctx.set(dut.rows.valid, 1)
        for first in range(0, 256, size):
            ctx.set(dut.rows.payload, packed(contents[first : first + size], 8))
            await ctx.tick().until(dut.rows.ready)
        ctx.set(dut.rows.valid, 0)
        while not ctx.get(dut.rows.ready):
            await ctx.tick()

    async def look_up(ctx, bytes_in):
        """Return the table's entries for a vector, by the beats of their results."""
        ctx.set(dut.vectors.payload.values, packed(bytes_in, 32))
        ctx.set(dut.vectors.valid, 1)
        await ctx.tick().until(dut.vectors.ready)
        ctx.set(dut.vectors.valid, 0)
        cycles, beats = 1, config.columns // config.lanes
        while not ctx.get(dut.emerges):
            await ctx.tick()
            cycles += 1
        assert cycles == Lane.LATENCY + Tables.LATENCY - beats + 1
        found = []
        for beat in range(beats):
            assert ctx.get(dut.emerges) == 1 << beat
            found += [ctx.get(dut.results[lane]) & 255 for lane in range(config.lanes)]
            await ctx.tick()
        return found

    async def bench(ctx):
        await fill(ctx)
        ctx.set(dut.command, {"destination": Destination.SPAD, "table": Table.LOOK_UP})
        ctx.set(dut.numbers, {"low": -128, "high": 127})
        for lane in range(config.lanes):
            ctx.set(dut.parameters.multipliers[lane], 2**30)
            ctx.set(dut.parameters.shifts[lane], 1)
        ctx.set(dut.parameters.ready, 1)
        await ctx.tick().repeat(3)
        for _vector in range(12):
            bytes_in = [generator.randrange(256) for _ in range(config.columns)]
            found = await look_up(ctx, [(byte ^ 128) - 128 for byte in bytes_in])
            assert found == [contents[byte] for byte in bytes_in]
            ctx.set(dut.written, 1)
            await ctx.tick()
            ctx.set(dut.written, 0)

    simulate(dut, bench, cycles=1000)


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("reset_at", [1, 2, 7, 15, 18])
@pytest.mark.parametrize("name", ["4_by_2", "8_by_8"])
def test_reset_midway(seed, name, reset_at):
    config, generator = CONFIGS[name], random.Random(seed)
    command, vectors = draw(generator, config)
    run(config, command, vectors, seed, reset_at=reset_at)
