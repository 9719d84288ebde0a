"""Parameters: blocks of channels and repeated values, one block ahead, with late memories."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS, Config
from matloom_rtl.ports import SPAD_READ_LATENCY
from matloom_rtl.post.parameters import Parameters
from matloom_rtl.testing import simulate

CONFIGS = {
    "nano": PRESETS["nano"],
    "8x8": Config(rows=8, columns=8, hop=8, lanes=8, acc_bytes=2048),
}
SPAD = random.Random(3).randbytes(4096)
KINDS = [(0, 0), (1, 0), (0, 1), (1, 1)]


def task(chance, kind, blocks):
    return {
        "address": chance.randrange(2000),
        "channel_bias": kind[0],
        "channel_scale": kind[1],
        "bias": chance.getrandbits(32),
        "multiplier": chance.getrandbits(32),
        "shift": chance.getrandbits(8),
        "blocks": blocks,
    }


def blocks_of(config, item):
    """Return the three arrays of each block as integers, and the bytes read for them."""
    columns, place, found = config.columns, item["address"], []

    def take(per_channel, of_channels, value):
        nonlocal place
        if not of_channels:
            single = value.to_bytes(per_channel, "little")
            return int.from_bytes(single * columns, "little")
        place += per_channel * columns
        return int.from_bytes(SPAD[place - per_channel * columns : place], "little")

    for _block in range(item["blocks"]):
        biases = take(4, item["channel_bias"], item["bias"])
        multipliers = take(4, item["channel_scale"], item["multiplier"])
        found.append((biases, multipliers, take(1, item["channel_scale"], item["shift"])))
    return found


def run(config, tasks, *, refuse=0.0, linger=(0, 0), seed=0, reset_at=None):
    """Compare every block; return the cycles from each release to the next `ready`."""
    dut, reset, chance = Parameters(config), Signal(), random.Random(seed)
    wanted = [block for item in tasks for block in blocks_of(config, item)]
    columns, waits = config.columns, []

    async def offer(ctx):
        if reset_at is not None:
            ctx.set(dut.i.payload, tasks[-1])
            ctx.set(dut.i.valid, 1)
            await ctx.tick().repeat(reset_at)
            ctx.set(dut.i.valid, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
        for item in tasks:
            ctx.set(dut.i.payload, item)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)
            # What is offered while it is not valid is nothing.
            ctx.set(dut.i.payload, {name: 1 for name in item})

    async def scratchpad(ctx):
        # What comes in the next cycle is announced.
        pipeline = [None] * SPAD_READ_LATENCY
        while True:
            ctx.set(dut.read.ready, chance.random() >= refuse)
            ctx.set(dut.arriving, pipeline[1] is not None)
            noise = chance.getrandbits(8 * columns)
            ctx.set(dut.read.data, noise if pipeline[0] is None else pipeline[0])
            _c, _r, valid, ready, address, restart = await ctx.tick().sample(
                dut.read.valid, dut.read.ready, dut.read.address, reset
            )
            data = int.from_bytes(SPAD[address : address + columns], "little")
            pipeline = [*pipeline[1:], data if valid and ready else None]
            if restart:
                pipeline = [None] * len(pipeline)

    def shown(ctx):
        return tuple(ctx.get(each) for each in (dut.o.biases, dut.o.multipliers, dut.o.shifts))

    async def use(ctx):
        if reset_at is not None:
            await ctx.tick().repeat(reset_at + 1)
        for block in wanted:
            waits.append(1)
            while not (await ctx.tick().sample(dut.o.ready))[2]:
                waits[-1] += 1
            for _cycle in range(chance.randint(*linger)):
                assert (
                    ctx.get(dut.o.biases),
                    ctx.get(dut.o.multipliers),
                    ctx.get(dut.o.shifts),
                ) == block
                assert (await ctx.tick().sample(dut.o.ready))[2]
            assert (
                ctx.get(dut.o.biases),
                ctx.get(dut.o.multipliers),
                ctx.get(dut.o.shifts),
            ) == block
            ctx.set(dut.o.release, 1)
            await ctx.tick()
            ctx.set(dut.o.release, 0)

    wrapped = ResetInserter(reset)(dut)
    simulate(wrapped, offer, use, cycles=4000, background=[scratchpad])
    return waits[1:]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(
    ("refuse", "linger"), [(0, (0, 0)), (0.6, (0, 0)), (0, (0, 30)), (0.5, (0, 12))]
)
def test_blocks_in_order(seed, name, refuse, linger):
    chance = random.Random(seed)
    order = [*KINDS, *reversed(KINDS), (0, 1), (1, 0)]
    tasks = [task(chance, kind, chance.randint(1, 3)) for kind in order]
    run(CONFIGS[name], tasks, refuse=refuse, linger=linger, seed=seed)


def test_a_block_that_was_fetched_meanwhile_is_there_at_once(seed):
    chance = random.Random(seed)
    tasks = [task(chance, (1, 1), 4), task(chance, (0, 0), 1)]
    assert run(CONFIGS["nano"], tasks, linger=(30, 40)) == [1, 1, 1, 1]
    # Else nine reads, their latency, and the four cycles of a block without.
    waits = run(CONFIGS["nano"], tasks)
    assert waits[:3] == [9 + SPAD_READ_LATENCY + 4] * 3


@pytest.mark.parametrize("reset_at", [1, 3, 9, 14, 20])
def test_reset_midway(seed, reset_at):
    chance = random.Random(seed)
    tasks = [task(chance, kind, 2) for kind in KINDS]
    run(CONFIGS["nano"], tasks, reset_at=reset_at, seed=seed)
