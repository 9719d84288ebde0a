"""Products, sums and squares of elements and accumulators, early sums, and a reset."""

import random
from dataclasses import replace

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import Config
from matloom_rtl.post.products import Products
from matloom_rtl.testing import simulate

CONFIG = Config(rows=8, columns=8, broadcast_group=8, lanes=8, acc_bytes=2048)
ADDENDS, SQUARES = replace(CONFIG, products=2), replace(CONFIG, products=3)
WORDS = replace(CONFIG, products=4, mac_modes=("i8xi8", "i16xi8"))
DEPTH = 12


def packed(values, bits):
    """Return numbers packed into one, the first lowest."""
    return sum((value & ((1 << bits) - 1)) << bits * at for at, value in enumerate(values))


def signed(word, bits):
    return [
        ((word >> bits * at & ((1 << bits) - 1)) ^ (1 << (bits - 1))) - (1 << (bits - 1))
        for at in range(CONFIG.columns)
    ]


def vectors(generator, count, kind):
    """Return random sums of 9 bits, or 16 with words, and random elements, with corner cases."""
    end, half = (2**15, 2**15) if kind == "words" else (256, 128)
    sums = [
        [
            generator.choice((1 - end, end - 1, -end, generator.randint(1 - end, end - 1)))
            for _ in range(CONFIG.columns)
        ]
        for _ in range(count)
    ]
    data = [
        [
            generator.choice((-half, half - 1, generator.randint(-half, half - 1)))
            for _ in range(CONFIG.columns)
        ]
        for _ in range(count)
    ]
    return sums, data


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


def combined(kind, byte, total):
    """Return the expected result of a byte, minus its zero point, and a sum."""
    if kind == "squares":
        difference = (total - byte * 64 + 2**15) % 2**16 - 2**15
        return difference * difference
    return wrapped(total + byte * 2**19) if kind == "adds" else byte * total


def run(generator, count, zero, *, ahead, gaps, config=CONFIG, kind="", reset_at=None):
    """Send sums `ahead` of their bytes; return the cycles until all results have been checked."""
    dut = Products(config, DEPTH)
    reset = Signal()
    sums, data = vectors(generator, count, kind)
    whole = kind in ("adds", "squares")
    bits = 16 if kind == "words" else 9
    if whole:
        sums = [[generator.randint(-(2**31), 2**31 - 1) for _ in each] for each in sums]
    found, state = [], {"cycles": 0}

    async def send(ctx):
        ctx.set(dut.zero, zero)
        if kind:
            ctx.set(getattr(dut, kind), 1)
        if reset_at is not None:
            ctx.set(dut.sums_arrived, 1)
            await ctx.tick().repeat(reset_at)
            ctx.set(dut.bytes_arrived, 1)
            await ctx.tick()
            ctx.set(reset, 1)
            ctx.set(dut.sums_arrived, 0)
            ctx.set(dut.bytes_arrived, 0)
            await ctx.tick()
            ctx.set(reset, 0)
            found.clear()
        asked = answered = 0
        while answered < count:
            more = asked < count and asked - answered < DEPTH
            sums_now = more and generator.random() >= gaps
            bytes_now = asked - answered >= min(ahead, count - answered)
            bytes_now = bytes_now and generator.random() >= gaps
            ctx.set(dut.sums_arrived, sums_now)
            ctx.set(dut.bytes_arrived, bytes_now)
            if sums_now:
                mask, noise = (1 << bits) - 1, generator.getrandbits(32 - bits) << bits
                words = [value if whole else (value & mask) | noise for value in sums[asked]]
                ctx.set(dut.sums, packed(words, 32))
            if bytes_now:
                ctx.set(dut.bytes, packed(data[answered], len(dut.bytes) // CONFIG.columns))
                ctx.set(dut.ends, answered % 3 == 0)
            asked, answered = asked + sums_now, answered + bytes_now
            await ctx.tick()
        ctx.set(dut.bytes_arrived, 0)

    async def take(ctx):
        while len(found) < count:
            valid, values, ended, cleared = (
                await ctx.tick().sample(dut.valid, dut.values, dut.ended, reset)
            )[2:]
            if valid and not cleared:
                found.append((signed(values, 32), ended))
            state["cycles"] += 1

    simulate(ResetInserter(reset)(dut), send, take, cycles=5000)
    for at, (products, ended) in enumerate(found):
        pairs = zip(data[at], sums[at], strict=True)
        expected = [combined(kind, x - zero, y) for x, y in pairs]
        assert products == expected
        assert ended == (at % 3 == 0)
    return state["cycles"]


KINDS = pytest.mark.parametrize(
    ("config", "kind"),
    [
        (CONFIG, ""),
        (ADDENDS, ""),
        (ADDENDS, "adds"),
        *((SQUARES, x) for x in ("", "adds", "squares")),
        *((WORDS, x) for x in ("", "adds", "squares", "words")),
    ],
    ids=[
        *("alone", "both", "added", "all", "all, added", "squared"),
        *("of bytes, words", "added, words", "squared, words", "of words"),
    ],
)


@KINDS
@pytest.mark.parametrize("zero", [-128, 127, 0, -3])
def test_a_vector_a_cycle(seed, config, kind, zero):
    cycles = run(random.Random(seed), 60, zero, ahead=4, gaps=0, config=config, kind=kind)
    assert cycles == 60 + 4 + Products.LATENCY


@KINDS
@pytest.mark.parametrize("ahead", [1, 5, DEPTH])
def test_late_bytes_and_gaps(seed, config, kind, ahead):
    run(random.Random(seed), 60, -7, ahead=ahead, gaps=0.4, config=config, kind=kind)


@KINDS
def test_reset_midway(seed, config, kind):
    run(random.Random(seed), 20, 5, ahead=3, gaps=0, config=config, kind=kind, reset_at=4)
