"""Loader: rows of weight tiles in step order, one tile ahead, and the cycles between tiles."""

import dataclasses
import itertools
import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import Config
from matloom.arch.modes import MAC_MODES
from matloom_rtl.array.loader import Loader
from matloom_rtl.ports import SPAD_READ_LATENCY
from matloom_rtl.testing import simulate

CONFIGS = {
    "two_rows": Config(
        rows=8, columns=4, broadcast_group=4, weight_rows=2, lanes=4, acc_bytes=1024
    ),
    "whole_tile": Config(
        rows=4, columns=4, broadcast_group=4, weight_rows=4, lanes=4, acc_bytes=1024
    ),
}
LOOPS = ("oc_blocks", "kernel_rows", "kernel_cols", "blocks")


def command(address, loops, fixed=0):
    return {
        "weight_addr": address,
        "weights_fixed": fixed,
        **dict(zip(LOOPS, loops, strict=True)),
    }


def tiles_of(item):
    count = 1
    for name in LOOPS:
        count *= item[name]
    return 1 if item["weights_fixed"] else count


def run(config, commands, *, refuse=0.0, idle=0.0, seed=0, reset_at=None):
    """Load the tiles of commands; return granted addresses, their cycles, and the rows delivered.

    Every tile is announced once, and as many are released as were granted. The flag for the last
    tile of a command comes with its release, and is random otherwise.
    """
    lasts = [tile == tiles_of(item) - 1 for item in commands for tile in range(tiles_of(item))]
    dut = Loader(config)
    reset = Signal()
    generator = random.Random(seed)
    groups = config.tile_load_cycles
    wanted = sum(tiles_of(item) for item in commands) * groups
    width = config.weight_rows * config.columns
    granted, cycles, delivered, restarted, was_reset = [], [], [], [], []

    async def feed(ctx):
        if reset_at is not None:
            ctx.set(dut.i.payload, command(0, (3, 3, 3, 3)))
            ctx.set(dut.i.valid, 1)
            await ctx.tick()
            ctx.set(dut.i.valid, 0)
            await ctx.tick().repeat(reset_at)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            await ctx.tick()
            assert not ctx.get(dut.full)
            for each in (granted, cycles, delivered):
                each.clear()
            restarted.append(True)
            was_reset.append(True)
        for item in commands:
            ctx.set(dut.i.payload, item)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def scratchpad(ctx):
        pipeline = [0] * (SPAD_READ_LATENCY - 1)
        cycle = released = 0
        while len(delivered) < wanted or released < wanted // groups:
            # The array takes a tile as soon as it may, or idles.
            full = ctx.get(dut.full)
            release = bool(full and generator.random() >= idle)
            if restarted:
                released = 0
                restarted.clear()
            ctx.set(dut.release, release)
            before_reset = reset_at is not None and not was_reset
            last = lasts[released] if not before_reset and release else 0
            ctx.set(dut.last, last if release else generator.getrandbits(1))
            released += release
            ctx.set(dut.read.ready, generator.random() >= refuse)
            _c, _r, valid, ready, address, writes, data = await ctx.tick().sample(
                dut.read.valid,
                dut.read.ready,
                dut.read.address,
                dut.weight_writes,
                dut.weight_data,
            )
            if writes:
                assert writes.bit_count() == 1
                delivered.append((writes.bit_length() - 1, data))
            if valid and ready:
                granted.append(address)
                cycles.append(cycle)
            pipeline.append(pattern(address, width))
            ctx.set(dut.read.data, pipeline.pop(0))
            cycle += 1

    simulate(ResetInserter(reset)(dut), feed, scratchpad, cycles=4000)
    return granted, cycles, delivered


def pattern(address, width):
    """Return bytes that differ between addresses."""
    return int.from_bytes(bytes((37 * (address + i)) % 256 for i in range(width)), "little")


def expected(config, commands):
    width, addresses, rows = config.weight_rows * config.columns, [], []
    for item in commands:
        for tile in range(tiles_of(item)):
            for group in range(config.tile_load_cycles):
                address = item["weight_addr"] + tile * config.tile_bytes + group * width
                addresses.append(address)
                rows.append((group, pattern(address, width)))
    return addresses, rows


COMMANDS = [
    command(64, (2, 3, 1, 2)),
    command(4096, (2, 2, 2, 2), fixed=1),
    command(48, (1, 1, 2, 1)),
]


@pytest.mark.parametrize("name", CONFIGS)
def test_rows_in_order_without_gaps(name):
    config = CONFIGS[name]
    granted, cycles, delivered = run(config, COMMANDS)
    assert (granted, delivered) == expected(config, COMMANDS)
    within = [b - a for a, b in itertools.pairwise(cycles)]
    # Within a command a row is granted every cycle: the release comes with the next row. The first
    # row of a command comes two cycles after the release of the tile before.
    ends = itertools.accumulate(tiles_of(item) * config.tile_load_cycles for item in COMMANDS)
    ends = list(ends)[:-1]
    assert [gap for at, gap in enumerate(within, 1) if at in ends] == [1 + 2, 1 + 2]
    assert {gap for at, gap in enumerate(within, 1) if at not in ends} == {1}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("refuse", "idle"), [(0.5, 0), (0, 0.7), (0.5, 0.7)])
def test_refused_and_idle(seed, name, refuse, idle):
    config = CONFIGS[name]
    granted, _cycles, delivered = run(config, COMMANDS, refuse=refuse, idle=idle, seed=seed)
    assert (granted, delivered) == expected(config, COMMANDS)


def test_holds_one_tile_until_released():
    config = CONFIGS["two_rows"]
    dut = Loader(config)

    async def bench(ctx):
        ctx.set(dut.i.payload, command(0, (1, 1, 1, 5)))
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.read.ready, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        # A command waits a cycle, and the request of a row follows its address by another.
        await ctx.tick().repeat(config.tile_load_cycles + 2)
        assert ctx.get(dut.full)
        for _cycle in range(20):
            assert not ctx.get(dut.read.valid)
            await ctx.tick()

    simulate(dut, bench, cycles=100)


def test_reset_midway():
    config = CONFIGS["two_rows"]
    granted, _cycles, delivered = run(config, COMMANDS, reset_at=9)
    assert granted == expected(config, COMMANDS)[0]
    assert delivered[-len(granted) :] == expected(config, COMMANDS)[1]


#: With blocks that take the port of weights, and two weights in a byte.
MODES = Config(
    rows=12,
    columns=8,
    broadcast_group=4,
    weight_rows=4,
    lanes=8,
    acc_bytes=8192,
    mac_modes=("i8xi8", "i8xi4"),
)
FLOATS = dataclasses.replace(MODES, mac_modes=("i8xi8", "bf16", "fp8_e5m2"), float_rows=2)
#: Tiles may be transposed.
TRANSPOSED = Config(
    broadcast_group=4, weight_rows=4, lanes=16, acc_bytes=16384, transposed_weights=1
)


def carrying(name):
    """Return the command fields that set a flag: the mode, or that tiles are transposed."""
    return {"mode": MAC_MODES.index(name)} if name in MAC_MODES else {"weights_transposed": name}


@pytest.mark.parametrize(
    ("config", "flag", "flags"),
    [
        (MODES, "weight_narrow", {"i8xi8": 0, "i8xi4": 1}),
        # Of bytes the format does not count.
        (FLOATS, "weight_format", {"i8xi8": None, "bf16": 0, "fp8_e5m2": 1}),
        (TRANSPOSED, "weight_transposed", {0: 0, 1: 1}),
    ],
    ids=["narrow", "formats", "transposed"],
)
def test_rows_and_blocks_share_the_port(seed, config, flag, flags):
    """Rows carry the flags of their instruction; blocks have none, and are padded as a whole."""
    dut, generator = Loader(config), random.Random(seed)
    width = config.weight_rows * config.columns
    order = [*flags, *reversed(flags)]
    commands = [
        command(1024 * number, (1, 1, 1, 3)) | carrying(name) for number, name in enumerate(order)
    ]
    addresses, rows = expected(config, commands)
    names = [order[address // 1024] for address in addresses]
    wanted = [(*row, flags[name]) for row, name in zip(rows, names, strict=True)]
    delivered, granted, releases = [], [], []

    async def feed(ctx):
        for item in commands:
            ctx.set(dut.i.payload, item)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def scratchpad(ctx):
        # A block is granted from outside, and its bytes come when those of a row would.
        pipeline, shown = [None] * SPAD_READ_LATENCY, None
        while len(delivered) < len(wanted):
            taken = generator.random() < 0.4
            ctx.set(dut.taken, taken)
            ctx.set(dut.read.ready, generator.random() < 0.8)
            release = int(ctx.get(dut.full) and generator.random() < 0.6)
            ctx.set(dut.release, release)
            # Commands are of three tiles each.
            ctx.set(dut.last, release and len(releases) % 3 == 2)
            releases.extend([release] * release)
            arriving = pipeline.pop(0)
            blank, pad = arriving == "blank", generator.randrange(256)
            ctx.set(dut.blank, blank)
            ctx.set(dut.pad, pad)
            content = generator.getrandbits(8 * width)
            if isinstance(arriving, int):
                content = pattern(arriving, width)
            ctx.set(dut.read.data, content)
            _c, _r, valid, ready, address, writes, data, found = await ctx.tick().sample(
                *(dut.read.valid, dut.read.ready, dut.read.address, dut.weight_writes),
                *(dut.weight_data, getattr(dut, flag)),
            )
            if writes:
                assert shown is None
                group = writes.bit_length() - 1
                assert writes == 1 << group
                counts = wanted[len(delivered)][2] is not None
                delivered.append((group, data, found if counts else None))
            elif shown is not None:
                assert (data, found) == (shown, 0)
            assert not (valid and taken)
            if valid and ready:
                granted.append(address)
            kind = generator.choice(("blank", "block")) if taken else None
            pipeline.append(address if valid and ready else kind)
            padding = int.from_bytes(bytes([pad]) * width, "little")
            shown = {"blank": padding, "block": content}.get(arriving)

    simulate(dut, feed, scratchpad, cycles=4000)
    assert granted == addresses
    assert delivered == wanted
