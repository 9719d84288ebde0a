"""Planes and rows, compared with the sum of products that the instruction set defines."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS, Config
from matloom.arch.isa import Opcode
from matloom_rtl.dma.rows import Rows
from matloom_rtl.dma.testing import with_bases
from matloom_rtl.testing import simulate

#: With every bit that the format has.
CONFIG = Config(spad_bytes=2**24, spad_banks=16, timestamps=256)
BASES = [0x1000_0000, 0x2000_0000, 0x3000_0040, 0xF000_0000]


def instruction(chance):
    return {
        "timestamp": chance.randrange(256),
        "fill": chance.random() < 0.2,
        "region": chance.randrange(4),
        "fill_value": chance.randrange(256),
        "dram_offset": chance.randrange(2**24),
        "spad_addr": chance.randrange(2**24),
        "row_bytes": chance.randrange(1, 2**21),
        "rows": chance.randrange(1, 6),
        "planes": chance.randrange(1, 5),
        "dram_row_step": chance.randrange(2**24),
        "dram_plane_step": chance.randrange(2**24),
        "spad_row_step": chance.randrange(2**21),
        "spad_plane_step": chance.randrange(2**21),
        "spread": chance.randrange(4),
    }


def expected(body):
    rows = []
    for plane in range(body["planes"]):
        for row in range(body["rows"]):
            address = (
                BASES[body["region"]]
                + body["dram_offset"]
                + plane * body["dram_plane_step"]
                + row * body["dram_row_step"]
            )
            spad = body["spad_addr"] + plane * body["spad_plane_step"] + row * body["spad_row_step"]
            last = (plane, row) == (body["planes"] - 1, body["rows"] - 1)
            rows.append(
                {
                    "address": 0 if body["fill"] else address % 2**32,
                    "spad": spad % 2**24,
                    "bytes": body["row_bytes"],
                    "last": last,
                    "constant": int(body["region"] == 0 and not body["fill"]),
                    **{name: body[name] for name in ("timestamp", "fill", "fill_value", "spread")},
                }
            )
    return rows


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_walks_every_row(stall):
    chance = random.Random(7)
    bodies = [instruction(chance) for _ in range(20)]
    shapes = [(rows, planes) for rows in (1, 2, 3) for planes in (1, 2, 3)]
    bodies += [instruction(chance) | {"rows": rows, "planes": planes} for rows, planes in shapes]
    rows = [row for body in bodies for row in expected(body)]
    dut, seen = Rows(Opcode.LOAD, CONFIG), []

    async def feed(ctx):
        for body in bodies:
            ctx.set(dut.i.payload, body)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)
            while chance.random() < stall:
                await ctx.tick()

    async def collect(ctx):
        while len(seen) < len(rows):
            ready = chance.random() >= stall
            ctx.set(dut.o.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                seen.append({name: payload[name] for name in rows[0]})

    cycles = simulate(with_bases(dut, BASES), feed, collect, cycles=5000)
    assert seen == rows
    if not stall:
        assert cycles == 2 * len(rows) + len(bodies)


@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
def test_shows_a_row_when_its_addresses_are_worked_out(preset):
    config = PRESETS[preset]
    chance = random.Random(3)
    narrow = instruction(chance) | {"timestamp": 5, "spread": 1, "rows": 3, "planes": 2}
    names = ("spad_addr", "spad_row_step", "spad_plane_step", "row_bytes")
    narrow |= {name: 1 + chance.randrange(config.spad_bytes // 8) for name in names}
    dut = Rows(Opcode.STORE, config)

    async def watch(ctx):
        # A row that waits is not replaced, and what comes later takes as long.
        for start in (0, 3):
            for _ in range(start):
                await ctx.tick()
            ctx.set(dut.i.payload, {**narrow, "fill": 0, "spread": 0})
            ctx.set(dut.i.valid, 1)
            for number, row in enumerate(expected({**narrow, "fill": 0})):
                ctx.set(dut.o.ready, 0)
                # Another row is begun as the one before is taken.
                for _ in range(1 if number else 2):
                    assert not ctx.get(dut.o.valid)
                    await ctx.tick()
                for _ in range(start + 1):
                    assert ctx.get(dut.o.valid)
                    assert ctx.get(dut.o.payload.address) == row["address"]
                    assert ctx.get(dut.o.payload.spad) == row["spad"] % 2**config.spad_addr_bits
                    assert ctx.get(dut.o.payload.last) == row["last"]
                    assert not ctx.get(dut.i.ready)
                    await ctx.tick()
                ctx.set(dut.o.ready, 1)
                await ctx.delay(1e-9)
                assert ctx.get(dut.i.ready) == row["last"]
                await ctx.tick()
            ctx.set(dut.i.valid, 0)

    simulate(with_bases(dut, BASES), watch, cycles=500)


def test_a_reset_forgets_rows():
    for cycles in range(1, 40):
        chance = random.Random(cycles)
        first = instruction(chance) | {"rows": 3, "planes": 3}
        second = instruction(chance) | {"rows": 2, "planes": 2}
        assert _seen_after_reset(first, second, cycles) == [
            (row["address"], row["spad"], row["last"]) for row in expected(second)
        ]


def _seen_after_reset(first, second, cycles):
    """Return the rows of an instruction after a reset cut another one short."""
    dut = Rows(Opcode.LOAD, CONFIG)
    reset = Signal()
    seen = []

    async def run(ctx):
        ctx.set(dut.i.payload, first)
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        await ctx.tick().repeat(cycles)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(dut.i.payload, second)
        while len(seen) < second["rows"] * second["planes"]:
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid:
                seen.append((payload["address"], payload["spad"], payload["last"]))

    simulate(ResetInserter(reset)(with_bases(dut, BASES)), run, cycles=200)
    return seen
