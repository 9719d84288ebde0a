"""Positions, compared with the loops of the instruction set: addresses, entries, ends."""

import dataclasses
import itertools
import random

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.softmax import BATCH
from matloom_rtl.post.positions import Positions
from matloom_rtl.testing import simulate

BYTES = PRESETS["nano"]
CONFIGS = {
    "bytes": BYTES,
    "words": dataclasses.replace(BYTES, mac_modes=("i8xi8", "i16xi8")),
    "floats": dataclasses.replace(BYTES, mac_modes=("i8xi8", "fp16"), weight_rows=2, float_rows=2),
    "narrow": dataclasses.replace(BYTES, mac_modes=("i8xi8", "i8xi4"), acc_bytes=64 * 16),
    "softmax": dataclasses.replace(BYTES, softmax=1),
    "maxima": dataclasses.replace(BYTES, softmax=1, pooling=1),
}
#: How often batches of whole rows come.
PASSES = 3
PLAIN = {"address": 100, "entry": 5, "pitch": 70, "x_step": 9, "width": 3, "height": 2, "blocks": 3}


def expected(config, geometry):
    """Return each vector's address and entry, and whether it ends its block and the command."""
    g = {"size": 0, "pairs": 0} | geometry
    if g.get("whole_rows"):
        return expected_rows(config, g)
    if g.get("pooled"):
        return expected_blocks(config, g)
    found, apart = [], config.pair_distance
    each = g["width"] * g["height"]
    for block in range(g["blocks"]):
        for y in range(g["height"]):
            for x in range(g["width"]):
                address = g["address"] + block * (config.columns << g["size"])
                address += y * g["pitch"] + x * g["x_step"]
                number = y * g["width"] + x
                if g["pairs"]:
                    pair = g["entry"] + block // 2 * each + number
                    entry = pair + apart * (pair // apart) + apart * (block % 2)
                else:
                    entry = g["entry"] + block * each + number
                last_block = block == g["blocks"] - 1
                ends = number == each - 1
                address %= 2**config.spad_size_bits
                entry %= config.acc_entries
                found.append((address, entry, ends, ends and last_block, last_block))
    return found


def expected_blocks(config, g):
    """Return the expected positions of maxima: each four times, with the sums of a 2 x 2 block."""
    found, rows, width = [], 2 * g["height"], 2 * g["width"]
    for block, y, x in itertools.product(
        *(range(g[name]) for name in ("blocks", "height", "width"))
    ):
        address = g["address"] + block * config.columns + y * g["pitch"] + x * g["x_step"]
        last_block = block == g["blocks"] - 1
        for down, right in itertools.product(range(2), repeat=2):
            entry = g["entry"] + (block * rows + 2 * y + down) * width + 2 * x + right
            ends = (y, x, down, right) == (g["height"] - 1, g["width"] - 1, 1, 1)
            place = address % 2**config.spad_size_bits, entry % config.acc_entries
            found.append((*place, ends, ends and last_block, last_block))
    return found


def expected_rows(config, g):
    """Return the expected positions of SOFTMAX, which reads each batch of rows `PASSES` times."""
    found = []
    for first in range(0, g["height"], BATCH):
        rows = range(first, min(first + BATCH, g["height"]))
        for number in range(PASSES):
            for y, block in itertools.product(rows, range(g["blocks"])):
                address = g["address"] + y * g["pitch"] + block * config.columns
                last = block == g["blocks"] - 1
                ends_pass = last and y == rows[-1]
                ends = ends_pass and number == PASSES - 1 and y == g["height"] - 1
                entry = (g["entry"] + len(found)) % config.acc_entries
                found.append((address % 2**config.spad_size_bits, entry, ends_pass, ends, last))
    return found


def bank_select(config, address):
    """Return a bit for each bank with a vector's first bytes."""
    ends = address, (address + config.columns - 1) % 2**config.spad_size_bits
    banks = {end // config.bank_bytes for end in ends}
    return sum(1 << bank for bank in banks if bank < config.spad_banks)


def check(config, geometries, *, stall=0.0, seed=0):
    dut = Positions(config, passes=PASSES, pools=bool(config.pooling))
    chance = random.Random(seed)

    async def main(ctx):
        for geometry in geometries:
            wanted = expected(config, geometry)
            # Some are left in the midst: a start forgets what was there.
            count = len(wanted) if chance.random() < 0.8 else chance.randrange(len(wanted))
            for name, value in geometry.items():
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.start, 1)
            # A start comes alone: nothing moves between instructions.
            ctx.set(dut.advance, 0)
            await ctx.tick()
            ctx.set(dut.start, 0)
            outputs = (
                dut.position.address,
                dut.position.entry,
                dut.position.block_end,
                dut.position.end,
                dut.position.last_block,
            )
            for position in wanted[:count]:
                while True:
                    assert tuple(map(ctx.get, outputs)) == position
                    assert ctx.get(dut.position.bank_select) == bank_select(config, position[0])
                    advance = chance.random() >= stall
                    ctx.set(dut.advance, advance)
                    await ctx.tick()
                    if advance:
                        break

    total = sum(len(expected(config, geometry)) for geometry in geometries)
    simulate(dut, main, cycles=round(3 * total / (1 - stall)) + 100)


def draw(chance, config):
    geometry = {
        "address": chance.choice((0, chance.randrange(config.spad_bytes))),
        "entry": chance.randrange(8),
        "pitch": chance.choice((0, config.spad_bytes - 1, chance.randrange(config.spad_bytes))),
        "x_step": chance.choice((0, 1, config.spad_bytes - 1, chance.randrange(config.spad_bytes))),
        **{name: chance.choice((1, 1, 2, 3, 4)) for name in ("width", "height", "blocks")},
    }
    if config.element_size_bits:
        geometry["size"] = chance.randrange(min(3, 1 << config.element_size_bits))
    if config.has_narrow:
        geometry["pairs"] = chance.randrange(2)
        geometry["entry"] = chance.choice((0, 3, config.pair_distance - 2, 20))
    if config.softmax:
        geometry["whole_rows"] = chance.randrange(2)
    if config.pooling:
        geometry["pooled"] = int(not geometry.get("whole_rows") and chance.random() < 0.7)
    if geometry.get("whole_rows"):
        geometry |= {"width": 1, "height": chance.choice((1, 2, 15, 16, 17, 32, 35))}
    return geometry


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_random_geometries(seed, name, stall):
    chance = random.Random(seed)
    check(CONFIGS[name], [draw(chance, CONFIGS[name]) for _ in range(20)], stall=stall, seed=seed)


@pytest.mark.parametrize("longest", ["width", "height", "blocks"])
def test_loops_of_more_than_half_the_largest_count(longest):
    """2,049 is the first count that does not fit eleven bits."""
    one = {"width": 1, "height": 1, "blocks": 1}
    check(BYTES, [PLAIN | one | {longest: 2049, "entry": 200}])
