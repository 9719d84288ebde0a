"""Writer: results and their addresses to either memory, in parts for 16-bit elements."""

import dataclasses
import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import Config
from matloom.arch.isa import Destination, Table
from matloom_rtl.post.lanes import PLACES
from matloom_rtl.post.writer import Writer
from matloom_rtl.testing import simulate

SMALL = {"rows": 4, "columns": 4, "broadcast_group": 4, "lanes": 2, "acc_bytes": 1024}
BYTES = Config(**SMALL)
WORDS = Config(**SMALL, mac_modes=("i8xi8", "i16xi8"))
FLOATS = Config(**SMALL, float_rows=2, mac_modes=("i8xi8", "bf16"))
COLUMNS, TAIL = 4, 3
#: Destination, configuration, logarithm of an element's bytes.
KINDS = {
    "bytes": (Destination.SPAD, BYTES, 0),
    "words": (Destination.SPAD, WORDS, 1),
    "bytes_next_to_words": (Destination.SPAD, WORDS, 0),
    "fp32": (Destination.SPAD, FLOATS, 2),
    "sums": (Destination.ACC_SET, BYTES, 0),
    "added": (Destination.ACC_ADD, BYTES, 0),
}


def draw(generator, count):
    """Return results with their positions; the last two are in the last block."""
    return [
        {
            "values": [generator.getrandbits(32) for _ in range(COLUMNS)],
            "address": generator.randrange(900, 1700),
            "entry": generator.randrange(64),
            "last_block": int(number >= count - 2),
            "end": int(number == count - 1),
        }
        for number in range(count)
    ]


def writes_of(item, destination, size):
    """Return the writes of a result: bytes by address, or sums by entry and column."""
    columns = TAIL if item["last_block"] else COLUMNS
    if destination != Destination.SPAD:
        return {(item["entry"], column): item["values"][column] for column in range(columns)}
    raw = b"".join(value.to_bytes(4, "little")[: 1 << size] for value in item["values"][:columns])
    return {item["address"] + index: byte for index, byte in enumerate(raw)}


def run(kind, count, seed, *, lanes=4, refuse=0.0, scarce=0.0, reset_at=None, busy=None):
    """Check every write, in order; return the cycles of results, of grants and of `finished`."""
    destination, config, size = KINDS[kind]
    config = dataclasses.replace(config, lanes=lanes)
    # How often the table takes no row, where rows go there.
    table = Table.NONE if busy is None else Table.FILL
    busy = busy or 0.0
    chance, dut = random.Random(seed), Writer(config)
    reset = Signal()
    items = draw(chance, count)
    expected = [writes_of(item, destination, size) for item in items]
    free = [PLACES]
    given, granted, finished = [], [], []
    state = {"live": reset_at is None, "cycle": 0}
    pending, places, rows = {}, [], []

    async def give(ctx):
        command = {"destination": destination, "tail": TAIL}
        if config.tables:
            command["table"] = table
        ctx.set(dut.command, command)
        if config.element_size_bits:
            ctx.set(dut.numbers.size, size)
        if reset_at is not None:
            ctx.set(dut.emerges, 1)
            await ctx.tick()
            ctx.set(dut.emerges, 1 << COLUMNS // lanes - 1)
            await ctx.tick().repeat(reset_at)
            ctx.set(dut.emerges, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            await ctx.tick()
            pending.clear()
            free[0] = PLACES
        show(ctx, items[0])
        state.update(live=True, cycle=0)
        for item in items:
            while not free[0] or chance.random() < scarce:
                await ctx.tick()
            free[0] -= 1
            for first in range(0, COLUMNS, lanes):
                ctx.set(dut.emerges, 1 << first // lanes)
                for lane in range(lanes):
                    ctx.set(dut.results[lane], item["values"][first + lane])
                given.append(state["cycle"])
                await ctx.tick()
            ctx.set(dut.emerges, 0)

    def show(ctx, item):
        """Show the destination of the oldest result."""
        names = ("address", "entry", "last_block", "end")
        position = {name: item[name] for name in names}
        ctx.set(dut.position, position | {"bank_select": item["address"] % 16})

    def took(address, data, mask, bits):
        found = {}
        for index in range(COLUMNS):
            if mask >> index & 1:
                at = (address, index) if bits == 32 else address + index
                found[at] = data >> bits * index & (1 << bits) - 1
        pending.update(found)
        while expected and expected[0].items() <= pending.items():
            for at in expected.pop(0):
                del pending[at]
        granted.append(state["cycle"])

    async def memories(ctx):
        rows_port = (0, 0, 0)
        if config.tables:
            rows_port = dut.rows.valid, dut.rows.ready, dut.rows.payload
        while len(finished) < 1 or ctx.get(dut.waiting):
            for port in (dut.spad, dut.acc):
                ctx.set(port.ready, chance.random() >= refuse)
            if config.tables:
                ctx.set(dut.rows.ready, chance.random() >= busy)
            offered = ctx.get(dut.spad.valid) | ctx.get(dut.acc.valid)
            assert ctx.get(dut.waiting) >= offered
            if ctx.get(dut.spad.valid) and not config.element_size_bits:
                assert ctx.get(dut.spad.bank_select) == ctx.get(dut.position.bank_select)
            sample = await ctx.tick().sample(
                *(
                    each
                    for port in (dut.spad, dut.acc)
                    for each in (port.valid, port.ready, port.address, port.mask)
                ),
                dut.acc.add,
                dut.advance,
                dut.finished,
                *rows_port,
            )
            *both, add, advance, last, fill, ready, row = sample[2:]
            # They follow the grant.
            both_data = ctx.get(dut.spad.data), ctx.get(dut.acc.data)
            if state["live"]:
                free[0] += advance
                places.extend(items[:advance])
                if advance and len(places) < count:
                    show(ctx, items[len(places)])
                if fill and ready:
                    rows.append(row)
                if last:
                    finished.append(state["cycle"])
                for number, bits in enumerate((8, 32)):
                    valid, ready, address, mask = both[4 * number : 4 * number + 4]
                    if valid and ready:
                        took(address, both_data[number], mask, bits)
                        assert (bits == 8) == (destination == Destination.SPAD)
                        assert add == (destination == Destination.ACC_ADD)
            state["cycle"] += 1

    simulate(ResetInserter(reset)(dut), memories, give, cycles=20 * count + 200)
    if table == Table.FILL:
        assert not granted
        values = [value & 255 for item in items for value in item["values"]]
        assert b"".join(row.to_bytes(COLUMNS, "little") for row in rows) == bytes(values)
    else:
        assert not expected
        assert not rows
    assert not pending
    return given, granted, finished


@pytest.mark.parametrize("kind", KINDS)
def test_steady(seed, kind):
    """A result is granted after one cycle, two for parts; one result, or part, per cycle."""
    given, granted, finished = run(kind, 30, seed)
    parts, in_parts = 1 << KINDS[kind][2], KINDS[kind][1] is not BYTES
    first = given[0] + 1 + in_parts
    assert granted == list(range(first, first + 30 * parts))
    assert finished == [granted[-1] - in_parts]


@pytest.mark.parametrize("kind", KINDS)
def test_steady_beats(seed, kind):
    """A result every two cycles, visible in the cycle after its last beat."""
    given, granted, _finished = run(kind, 30, seed, lanes=2)
    assert given == list(range(given[0], given[0] + 60)) or KINDS[kind][2] > 1
    if KINDS[kind][1] is BYTES:
        assert granted == [cycle + 1 for cycle in given[1::2]]


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("refuse", "scarce"), [(0.6, 0), (0, 0.6), (0.4, 0.4)])
def test_stalls(seed, kind, refuse, scarce):
    run(kind, 40, seed, lanes=2, refuse=refuse, scarce=scarce)


def test_table_fills_are_not_written(seed):
    """Results that fill a table need no grants of the memories; positions advance as usual."""
    given, _granted, finished = run("bytes", 10, seed, refuse=1, busy=0.0)
    assert finished == [given[-1] + 1]
    run("bytes", 30, seed, refuse=1, busy=0.8)


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reset_at", [1, 3, 6])
def test_reset_midway(seed, kind, reset_at):
    run(kind, 10, seed, lanes=2, refuse=0.5, reset_at=reset_at)
