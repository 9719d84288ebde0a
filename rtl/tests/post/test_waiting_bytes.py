"""WaitingBytes, compared with a list: in order, at full rate, when full, after a reset."""

import random
from collections import deque

import pytest

from matloom.arch.config import Config
from matloom_rtl.post import reader
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.products import Products
from matloom_rtl.post.waiting_bytes import WaitingBytes
from matloom_rtl.testing import simulate, with_reset

CONFIG = Config(rows=4, columns=16, acc_bytes=1024, result_sums=1)
#: Cycles from the arrival of a vector until it can be taken.
DELAY = 3


@pytest.mark.parametrize(
    "rate", [(1.0, 1.0), (0.9, 0.4), (0.3, 0.9)], ids=["full", "long", "short"]
)
def test_vectors_come_in_order(seed, rate):
    generator, dut = random.Random(seed), WaitingBytes(CONFIG)
    wrapped, reset = with_reset(dut)
    (arrives, takes), most = rate, 0

    async def main(ctx):
        nonlocal most
        for _ in range(2):
            held = deque()
            for cycle in range(300):
                come = len(held) < WaitingBytes.PLACES and generator.random() < arrives
                vector = generator.getrandbits(8 * CONFIG.columns)
                ctx.set(dut.arrives, come)
                ctx.set(dut.arriving, vector)
                due = bool(held) and cycle - held[0][0] >= DELAY
                leave = due and generator.random() < takes
                ctx.set(dut.takes, leave)
                if leave:
                    assert ctx.get(dut.oldest) == held.popleft()[1]
                if come:
                    held.append((cycle, vector))
                most = max(most, len(held))
                await ctx.tick()
            ctx.set(dut.arrives, 0)
            ctx.set(dut.takes, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)

    simulate(wrapped, main, cycles=1000)
    assert takes > arrives or arrives == takes or most == WaitingBytes.PLACES


def test_there_is_room_for_all_vectors_on_their_way():
    """The queue has room for the vectors read ahead, and for one in each stage of a lane."""
    ahead = reader._READ_AHEAD + Products.LATENCY
    assert ahead + Lane.LATENCY < WaitingBytes.PLACES
