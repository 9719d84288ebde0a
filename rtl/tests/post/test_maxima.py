"""Maxima, compared with NumPy: groups of four vectors, plain ones in between; cycles; reset."""

import random

import numpy as np
import pytest

from matloom.arch.config import Config
from matloom.arch.post_latency import maxima_latency
from matloom_rtl.post.maxima import Maxima
from matloom_rtl.testing import simulate, with_reset

CONFIGS = {
    "a beat a vector": Config(rows=8, columns=8, broadcast_group=8, lanes=8, pooling=1),
    "four beats": Config(rows=4, columns=4, broadcast_group=4, lanes=1, pooling=1),
    "a beat a vector, registered": Config(rows=8, columns=8, lanes=8, tables=2, pooling=1),
    "four beats, registered": Config(rows=4, columns=4, lanes=1, tables=2, pooling=1),
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
    """Feed commands (pools, words) to Maxima; return the beats that leave, and the number kept.

    Each beat that leaves must be the one that entered `maxima_latency` cycles before, or in this
    cycle if the command does not pool. `reset_at` resets after that many beats of a pooling
    command.
    """
    dut, chance = Maxima(config), random.Random(seed)
    wrapped, reset = with_reset(dut)
    beats, lanes, found, kept = config.columns // config.lanes, config.lanes, [], []
    #: Words of 32 bits side by side, as the lanes and the writer see them.
    given, shown_words = dut.results.as_value(), dut.maxima.as_value()
    #: The beats that entered in this cycle and in those before.
    entered = [0] * (1 + maxima_latency(config))

    async def cycle(ctx, pools, one_hot):
        """Simulate a cycle in which a beat enters, or none, with random results."""
        if not one_hot:
            ctx.set(given, chance.getrandbits(32 * lanes))
        ctx.set(dut.emerges, one_hot)
        entered.insert(0, one_hot)
        entered.pop()
        shown = ctx.get(dut.maxima_emerge)
        assert shown in (0, entered[-1 if pools else 0])
        kept.append(ctx.get(dut.kept))
        if shown:
            words = ctx.get(shown_words)
            found.extend(words >> 32 * lane & 0xFFFFFFFF for lane in range(lanes))
        await ctx.tick()
        ctx.set(dut.emerges, 0)

    async def feed(ctx, pools, every, leave_out=0):
        ctx.set(dut.pools, pools)
        numbers = [(words, number) for words in every for number in range(beats)]
        for words, number in numbers[: len(numbers) - leave_out]:
            while chance.random() < gaps:
                await cycle(ctx, pools, 0)
            here = words[number * lanes : (number + 1) * lanes]
            ctx.set(given, int.from_bytes(here.astype("<u4").tobytes(), "little"))
            await cycle(ctx, pools, 1 << number)

    async def main(ctx):
        if reset_at is not None:
            words = vectors(seed + 1, -(-reset_at // beats), config.columns)
            await feed(ctx, 1, words, leave_out=-reset_at % beats)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            assert not ctx.get(dut.maxima_emerge)
            found.clear()
            kept.clear()
            entered[:] = [0] * len(entered)
        for pools, every in commands:
            await feed(ctx, pools, every)
            # A command lasts until its results have left.
            for _ in range(maxima_latency(config) if pools else 0):
                await cycle(ctx, pools, 0)

    simulate(wrapped, main, cycles=20000)
    return np.reshape(found, (-1, config.columns)), sum(kept)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("gaps", [0.0, 0.5])
@pytest.mark.parametrize("reset_at", [None, 1, 2, 3, 4, 9, 16])
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
