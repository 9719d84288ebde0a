"""Parameters: blocks of channels and repeated values, one block ahead, with slow memories."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS, Config
from matloom_rtl.ports import SPAD_READ_LATENCY
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.parameters import Parameters
from matloom_rtl.testing import simulate

CONFIGS = {
    "nano": PRESETS["nano"],
    "8x8": Config(rows=8, columns=8, broadcast_group=8, lanes=8, acc_bytes=2048),
    # Four rows, in two memories for a lane; three lanes and four words a read.
    "8_by_1": Config(rows=8, columns=8, broadcast_group=8, lanes=1, acc_bytes=2048),
    "12_by_2": Config(rows=12, columns=12, broadcast_group=4, lanes=2, acc_bytes=768),
    "16_by_4": Config(rows=16, columns=16, lanes=4),
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
    """Return the biases, multipliers and shifts of each block, as the lanes get them."""
    columns, place, found = config.columns, item["address"], []

    def take(per_channel, of_channels, value):
        nonlocal place
        if not of_channels:
            return [value] * columns
        place += per_channel * columns
        raw = SPAD[place - per_channel * columns : place]
        parts = range(0, len(raw), per_channel)
        return [int.from_bytes(raw[at : at + per_channel], "little") for at in parts]

    for _block in range(item["blocks"]):
        biases = take(4, item["channel_bias"], item["bias"])
        multipliers = take(4, item["channel_scale"], item["multiplier"])
        shifts = take(1, item["channel_scale"], item["shift"])
        found.append(
            (
                [signed(bias, 32) for bias in biases],
                [multiplier % 2**31 for multiplier in multipliers],
                [signed(shift % 64, 6) for shift in shifts],
            )
        )
    return found


def signed(number, bits):
    return number - (1 << bits) * (number >> bits - 1 & 1)


def run(config, tasks, *, refuse=0.0, linger=(0, 0), seed=0, reset_at=None):
    """Compare every block; return the cycles from each release to the next `ready`."""
    dut = Parameters(config)
    reset = Signal()
    chance = random.Random(seed)
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
            ctx.set(dut.i.payload, dict.fromkeys(item, 1))

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

    due = []

    def enter(ctx, block, beat):
        """Let a beat enter; check its biases and shifts now, and its multipliers when due."""
        lanes = range(config.lanes)
        for lane in lanes:
            ctx.set(dut.o.beats[lane], beat)
        biases, multipliers, shifts = (
            [each[beat * config.lanes + lane] for lane in lanes] for each in block
        )
        assert [ctx.get(dut.o.biases[lane]) for lane in lanes] == biases
        assert [ctx.get(dut.o.shifts[lane]) for lane in lanes] == shifts
        due.append([Lane.MULTIPLIER_DELAY, multipliers])

    async def step(ctx):
        """Advance a cycle, and check the multipliers due in the next; return `ready`."""
        _clock, _reset, ready = await ctx.tick().sample(dut.o.ready)
        for each in due:
            each[0] -= 1
        while due and due[0][0] == 0:
            _cycles, multipliers = due.pop(0)
            found = [ctx.get(dut.o.multipliers[lane]) for lane in range(config.lanes)]
            assert found == multipliers
        return ready

    async def use(ctx):
        if reset_at is not None:
            await ctx.tick().repeat(reset_at + 1)
        beats = config.columns // config.lanes
        for block in wanted:
            waits.append(1)
            while not await step(ctx):
                waits[-1] += 1
            for beat in range(beats - 1):
                enter(ctx, block, beat)
                await step(ctx)
            for _cycle in range(chance.randint(*linger)):
                # Some later vector.
                enter(ctx, block, chance.randrange(beats))
                assert await step(ctx)
            enter(ctx, block, beats - 1)
            ctx.set(dut.o.release, 1)
            await step(ctx)
            ctx.set(dut.o.release, 0)
        for _cycle in range(Lane.MULTIPLIER_DELAY):
            await step(ctx)

    wrapped = ResetInserter(reset)(dut)
    simulate(wrapped, offer, use, cycles=4000, background=[scratchpad])
    return waits[1:]


@pytest.mark.fast_cases(2)
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
    # Else nine reads, their latency, and the four cycles of a block without, from its first beat.
    waits = run(CONFIGS["nano"], tasks)
    assert waits[:3] == [9 + SPAD_READ_LATENCY + 4 - 1] * 3


@pytest.mark.parametrize("reset_at", [1, 3, 9, 14, 20])
def test_reset_midway(seed, reset_at):
    chance = random.Random(seed)
    tasks = [task(chance, kind, 2) for kind in KINDS]
    run(CONFIGS["nano"], tasks, reset_at=reset_at, seed=seed)
