"""Maxima, compared with NumPy: groups of four vectors, plain vectors in between, reset."""

import random

import numpy as np
import pytest

from matloom.arch.config import Config
from matloom_rtl.post.maxima import Maxima
from matloom_rtl.testing import simulate, with_reset

CONFIGS = {
    "a beat a vector": Config(rows=8, columns=8, broadcast_group=8, lanes=8, pooling=1),
    "four beats": Config(rows=4, columns=4, broadcast_group=4, lanes=1, pooling=1),
}


def vectors(seed, count, columns):
    noise = np.random.default_rng(seed)
    words = noise.integers(-(2**31), 2**31, (count, columns))
    # Bytes at the ends, and equal ones, too.
    words[noise.random(words.shape) < 0.3] = 128
    words[noise.random(words.shape) < 0.2] = 127
    return words & 0xFFFFFFFF


def maxima_of(words):
    """Return the larger signed byte of each column of every four vectors."""
    return (words & 255).astype(np.uint8).view(np.int8).reshape(-1, 4, words.shape[1]).max(axis=1)


def run(config, commands, *, gaps, seed, reset_at=None):
    """Feed (pools, words) one after another; return what leaves, and the number kept."""
    dut, chance = Maxima(config), random.Random(seed)
    wrapped, reset = with_reset(dut)
    beats, lanes, found, kept = config.columns // config.lanes, config.lanes, [], 0

    async def beat(ctx, words, number):
        nonlocal kept
        while chance.random() < gaps:
            ctx.set(dut.emerges, 0)
            await ctx.tick()
        ctx.set(dut.emerges, 1 << number)
        for lane in range(lanes):
            ctx.set(dut.results[lane], int(words[number * lanes + lane]))
        shown = ctx.get(dut.maxima_emerge)
        kept += ctx.get(dut.kept)
        assert shown in (0, 1 << number)
        if shown:
            found.extend(ctx.get(dut.maxima[lane]) for lane in range(lanes))
        await ctx.tick()
        ctx.set(dut.emerges, 0)

    async def main(ctx):
        nonlocal kept
        if reset_at is not None:
            ctx.set(dut.pools, 1)
            for words in vectors(seed + 1, reset_at, config.columns):
                for number in range(beats):
                    await beat(ctx, words, number)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            found.clear()
            kept = 0
        for pools, every in commands:
            ctx.set(dut.pools, pools)
            for words in every:
                for number in range(beats):
                    await beat(ctx, words, number)

    simulate(wrapped, main, cycles=20000)
    return np.reshape(found, (-1, config.columns)), kept


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("gaps", [0.0, 0.5])
@pytest.mark.parametrize("reset_at", [None, 1, 2, 3])
def test_the_fourth_result_has_the_largest_bytes(seed, name, gaps, reset_at):
    config = CONFIGS[name]
    pooled = [vectors(seed + number, 4 * number, config.columns) for number in (1, 3)]
    plain = vectors(seed, 5, config.columns)
    commands = [(1, pooled[0]), (0, plain), (1, pooled[1])]
    found, kept = run(config, commands, gaps=gaps, seed=seed, reset_at=reset_at)
    bytes_found = (found & 255).astype(np.uint8).view(np.int8)
    assert np.array_equal(bytes_found[:1], maxima_of(pooled[0]))
    assert np.array_equal(found[1:6], plain)
    assert np.array_equal(bytes_found[6:], maxima_of(pooled[1]))
    assert kept == 3 * 4
