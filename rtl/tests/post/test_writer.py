"""Writer: results and their places to either memory, in parts where elements are words."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import Config
from matloom.arch.isa import Destination, Table
from matloom_rtl.post.lanes import places
from matloom_rtl.post.writer import Writer
from matloom_rtl.testing import simulate

SMALL = {"rows": 4, "columns": 4, "hop": 4, "lanes": 2, "acc_bytes": 1024}
BYTES = Config(**SMALL)
WORDS = Config(**SMALL, mac_modes=("i8xi8", "i16xi8"))
FLOATS = Config(**SMALL, float_rows=2, mac_modes=("i8xi8", "bf16"))
COLUMNS, TAIL = 4, 3
#: Destination, configuration, logarithm of an element's bytes.
KINDS = {
    "bytes": (Destination.SPAD, BYTES, 0),
    "words": (Destination.SPAD, WORDS, 1),
    "bytes_beside_words": (Destination.SPAD, WORDS, 0),
    "fp32": (Destination.SPAD, FLOATS, 2),
    "sums": (Destination.ACC_SET, BYTES, 0),
    "added": (Destination.ACC_ADD, BYTES, 0),
}


def draw(generator, count):
    """Return results with their positions, of which the last two belong to the last block."""
    return [
        {
            "values": [generator.getrandbits(32) for _ in range(COLUMNS)],
            "address": generator.randrange(2**15),
            "entry": generator.randrange(64),
            "last_block": int(number >= count - 2),
            "end": int(number == count - 1),
        }
        for number in range(count)
    ]


def writes_of(item, destination, size):
    """Return what a result writes: bytes by address, or sums by entry and column."""
    columns = TAIL if item["last_block"] else COLUMNS
    if destination != Destination.SPAD:
        return {(item["entry"], column): item["values"][column] for column in range(columns)}
    raw = b"".join(value.to_bytes(4, "little")[: 1 << size] for value in item["values"][:columns])
    return {item["address"] + index: byte for index, byte in enumerate(raw)}


def run(kind, count, seed, *, refuse=0.0, scarce=0.0, reset_at=None, table=Table.NONE):
    """Check every write, in order; return the cycles of results, of grants and of `finished`."""
    destination, config, size = KINDS[kind]
    chance, dut, reset = random.Random(seed), Writer(config), Signal()
    items = draw(chance, count)
    expected = [writes_of(item, destination, size) for item in items]
    free = [places(config)]
    given, granted, finished = [], [], []
    state = {"live": reset_at is None, "cycle": 0}
    pending = {}

    async def give(ctx):
        command = {"destination": destination, "tail": TAIL}
        if config.tables:
            command["table"] = table
        ctx.set(dut.command, command)
        if config.element_size_bits:
            ctx.set(dut.numbers.size, size)
        if reset_at is not None:
            ctx.set(dut.complete, 1)
            await ctx.tick().repeat(reset_at)
            ctx.set(dut.complete, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            pending.clear()
            free[0] = places(config)
        state.update(live=True, cycle=0)
        for item in items:
            while not free[0] or chance.random() < scarce:
                await ctx.tick()
            packed = sum(value << 32 * index for index, value in enumerate(item["values"]))
            ctx.set(dut.results, packed)
            names = ("address", "entry", "last_block", "end")
            ctx.set(dut.position, {name: item[name] for name in names})
            ctx.set(dut.complete, 1)
            free[0] -= 1
            given.append(state["cycle"])
            assert ctx.get(dut.advance)
            await ctx.tick()
            ctx.set(dut.complete, 0)

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
        while len(finished) < 1 or ctx.get(dut.waiting):
            for port in (dut.spad, dut.acc):
                ctx.set(port.ready, chance.random() >= refuse)
            waiting = ctx.get(dut.waiting)
            assert waiting == (ctx.get(dut.spad.valid) | ctx.get(dut.acc.valid))
            sample = await ctx.tick().sample(
                *(
                    each
                    for port in (dut.spad, dut.acc)
                    for each in (port.valid, port.ready, port.address, port.data, port.mask)
                ),
                dut.acc.add,
                dut.written,
                dut.finished,
            )
            *both, add, written, last = sample[2:]
            if state["live"]:
                free[0] += written
                if last:
                    finished.append(state["cycle"])
                for number, bits in enumerate((8, 32)):
                    valid, ready, address, data, mask = both[5 * number : 5 * number + 5]
                    if valid and ready:
                        took(address, data, mask, bits)
                        assert (bits == 8) == (destination == Destination.SPAD)
                        assert add == (destination == Destination.ACC_ADD)
            state["cycle"] += 1

    simulate(ResetInserter(reset)(dut), memories, give, cycles=20 * count + 200)
    if table == Table.NONE:
        assert not expected
    assert not pending
    return given, granted, finished


@pytest.mark.parametrize("kind", KINDS)
def test_steady(seed, kind):
    """Two cycles from a result to its grant, and a result, or a part of one, a cycle."""
    given, granted, finished = run(kind, 30, seed)
    parts = 1 << KINDS[kind][2]
    first = given[0] + 2
    assert granted == list(range(first, first + 30 * parts))
    assert finished == [granted[-1] - 1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("refuse", "scarce"), [(0.6, 0), (0, 0.6), (0.4, 0.4)])
def test_stalls(seed, kind, refuse, scarce):
    run(kind, 40, seed, refuse=refuse, scarce=scarce)


def test_what_fills_the_table_is_not_written(seed):
    """Its places come and go as those of others do, with no byte written."""
    _given, granted, _finished = run("bytes", 10, seed, table=Table.FILL)
    assert len(granted) == 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reset_at", [1, 3, 6])
def test_reset_midway(seed, kind, reset_at):
    run(kind, 10, seed, refuse=0.5, reset_at=reset_at)
