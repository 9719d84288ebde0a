"""InstructionMemory: order of words, freed places, cycles, stalls, reset midway."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS
from matloom.arch.isa import FORMATS, UNITS
from matloom_rtl.control.instructions import InstructionMemory
from matloom_rtl.control.layouts import place_bits
from matloom_rtl.testing import simulate

CONFIG = PRESETS["nano"]
PLACES = 1 << place_bits(CONFIG)


def words_of(unit):
    return FORMATS[unit].instruction_words


async def store(ctx, dut, words, notes):
    """Store an instruction with a note; return its place."""
    for word in words:
        ctx.set(dut.i.payload, word)
        ctx.set(dut.i.valid, 1)
        await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
    ctx.set(dut.note, 1)
    ctx.set(dut.notes, {"waits": notes})
    place = ctx.get(dut.last)
    await ctx.tick()
    ctx.set(dut.note, 0)
    return place


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(("gaps", "stalls"), [(0, 0), (0.8, 0), (0, 0.95), (0.5, 0.9)])
def test_every_unit_gets_its_instructions_whatever_the_order(seed, gaps, stalls):
    dut, chance = InstructionMemory(CONFIG), random.Random(seed)
    waiting = {unit: [] for unit in UNITS}
    got = {unit: [] for unit in UNITS}
    sent = []
    for _number in range(120):
        unit = chance.choice(UNITS)
        words = [chance.getrandbits(128) for _word in range(words_of(unit))]
        sent.append((unit, words, chance.randrange(16)))

    async def feed(ctx):
        for unit, words, notes in sent:
            while chance.random() < gaps:
                await ctx.tick()
            waiting[unit].append((await store(ctx, dut, words, notes), words, notes))

    async def take(ctx, number, unit):
        count = sum(each is unit for each, _words, _notes in sent)
        while len(got[unit]) < count:
            # Some units let theirs wait, while those of others go around.
            while not waiting[unit] or chance.random() < stalls:
                await ctx.tick()
            place, words, notes = waiting[unit].pop(0)
            ctx.set(dut.places[number], place)
            ctx.set(dut.asks[number], 1)
            for index in reversed(range(len(words))):
                sampled = (dut.word, dut.index, dut.word_notes)
                word, at, noted = await ctx.tick().sample(*sampled).until(dut.brings[number])
                assert (word, at) == (words[index], index)
                assert index < len(words) - 1 or noted.waits == notes
            ctx.set(dut.asks[number], 0)
            await ctx.tick()
            got[unit].append(words)

    benches = [lambda ctx, n=n, u=u: take(ctx, n, u) for n, u in enumerate(UNITS)]
    simulate(dut, feed, *benches, cycles=60000)
    for unit in UNITS:
        assert got[unit] == [words for each, words, _notes in sent if each is unit]


def test_cycles():
    """Words arrive in the cycles after the request, last word first; one cycle between readers."""
    dut = InstructionMemory(CONFIG)

    async def main(ctx):
        for number, unit in enumerate(UNITS):
            words = [16 * number + index for index in range(words_of(unit))]
            ctx.set(dut.places[number], await store(ctx, dut, words, number))
        ctx.set(dut.asks, 15)
        seen = []
        for _cycle in range(14):
            ctx.set(dut.asks, ctx.get(dut.asks) & ~sum(1 << n for n, at, _w in seen if at == 0))
            await ctx.tick()
            brings, index = ctx.get(dut.brings), ctx.get(dut.index)
            seen.append(
                (brings.bit_length() - 1, index, ctx.get(dut.word)) if brings else (9, 9, 9)
            )
        expected = []
        for number, unit in enumerate(UNITS):
            expected += [
                (number, index, 16 * number + index) for index in reversed(range(words_of(unit)))
            ]
            expected.append((9, 9, 9))
        assert seen == expected

    simulate(dut, main, cycles=100)


def test_a_full_memory_waits_for_the_oldest_word():
    dut = InstructionMemory(CONFIG)

    async def main(ctx):
        places = [
            await store(ctx, dut, [2 * number, 2 * number + 1], 0) for number in range(PLACES // 2)
        ]
        ctx.set(dut.i.valid, 1)
        # Of all others a place is free, but the oldest instruction has two.
        load = 0
        for place in reversed(places):
            assert not ctx.get(dut.i.ready)
            ctx.set(dut.places[load], place)
            ctx.set(dut.asks[load], 1)
            ctx.set(dut.i.valid, 0)
            await ctx.tick().until(dut.brings[load] & (dut.index == 0))
            ctx.set(dut.asks[load], 0)
        assert not ctx.get(dut.i.ready)
        await ctx.tick()
        assert ctx.get(dut.i.ready)

    simulate(dut, main, cycles=400)


@pytest.mark.parametrize("when", range(1, 8))
def test_reset_midway_empties_it(when):
    dut = InstructionMemory(CONFIG)
    reset = Signal()

    async def main(ctx):
        for number in range(PLACES // 2):
            place = await store(ctx, dut, [number, number], 0)
        ctx.set(dut.places[1], place)
        ctx.set(dut.asks[1], 1)
        await ctx.tick().repeat(when)
        ctx.set(dut.asks[1], 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        assert ctx.get(dut.brings) == 0
        place = [await store(ctx, dut, [n, n + 100], 0) for n in range(PLACES // 2)][-1]
        ctx.set(dut.places[0], place)
        ctx.set(dut.asks[0], 1)
        (word,) = await ctx.tick().sample(dut.word).until(dut.brings[0])
        assert word == PLACES // 2 + 99

    simulate(ResetInserter(reset)(dut), main, cycles=400)
