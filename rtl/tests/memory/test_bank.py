"""One bank: adjacent words, also across lines, and their cycles."""

import random
from collections import Counter

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom_rtl.memory.bank import Bank
from matloom_rtl.testing import simulate

WORD, LINES = 4, 8


def test_lines_and_carries():
    """One read and one write per cycle; a read sees the writes of all earlier cycles."""
    dut, draw = Bank(word_bytes=WORD, lines=LINES), random.Random(1)
    lines = [bytearray(2 * WORD) for _line in range(LINES)]
    due = {}

    async def drive(ctx):
        for cycle in range(300):
            if cycle in due:
                assert ctx.get(dut.even).to_bytes(WORD, "little") == due[cycle][0]
                assert ctx.get(dut.odd).to_bytes(WORD, "little") == due[cycle][1]
            reading, touched = draw.random() < 0.7, set()
            line, carry = draw.randrange(LINES), draw.randrange(2)
            ctx.set(dut.read_valid, reading)
            ctx.set(dut.read_line, line)
            ctx.set(dut.read_carry, carry)
            if reading:
                even, odd = lines[(line + carry) % LINES][:WORD], lines[line][WORD:]
                due[cycle + 3] = bytes(even), bytes(odd)
                touched = {line, (line + carry) % LINES}

            # What a read finds of a line written in its own cycle is open.
            line, carry = draw.randrange(LINES), draw.randrange(2)
            writing = draw.random() < 0.9 and not touched & {line, (line + carry) % LINES}
            data, mask = draw.randbytes(2 * WORD), draw.randrange(1 << 2 * WORD)
            ctx.set(dut.write_valid, writing)
            ctx.set(dut.write_line, line)
            ctx.set(dut.write_carry, carry)
            ctx.set(dut.write_data, int.from_bytes(data, "little"))
            ctx.set(dut.write_mask, mask)
            for index in range(2 * WORD):
                if writing and mask >> index & 1:
                    place = (line + carry) % LINES if index < WORD else line
                    lines[place][index] = data[index]
            await ctx.tick()

    # Memory contents are not random at first: some reads meet bytes never written, all zero.
    simulate(dut, drive, cycles=310)


def test_words_stay_until_the_next_read_and_reset_drops_a_write():
    dut = Bank(word_bytes=WORD, lines=LINES)
    reset = Signal()

    async def drive(ctx):
        ctx.set(dut.write_valid, 1)
        ctx.set(dut.write_data, 0x8877665544332211)
        ctx.set(dut.write_mask, 0xFF)
        await ctx.tick()
        ctx.set(dut.write_data, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(dut.write_valid, 0)
        ctx.set(dut.read_valid, 1)
        await ctx.tick()
        ctx.set(dut.read_valid, 0)
        ctx.set(dut.read_line, 3)
        await ctx.tick().repeat(6)
        assert (ctx.get(dut.even), ctx.get(dut.odd)) == (0x44332211, 0x88776655)

    simulate(ResetInserter(reset)(dut), drive, cycles=20)


@pytest.mark.parametrize("seed", range(3))
def test_parity_reports_each_flipped_bit_read(seed):
    """A flipped bit is reported five cycles after a read; data are as without parity."""
    dut, draw = Bank(word_bytes=WORD, lines=LINES, parity=True), random.Random(seed)
    lines = [bytearray(2 * WORD) for _line in range(LINES)]
    flipped, due, told = {}, {}, {}
    counts = Counter()

    async def flip(ctx, line, half, byte, bit):
        memory = dut.memories[half].data[line]
        ctx.set(memory, ctx.get(memory) ^ 1 << 9 * byte + bit)
        if bit < 8:
            lines[line][half * WORD + byte] ^= 1 << bit
        place = line, half, byte
        flipped[place] = flipped.get(place, 0) ^ 1

    async def drive(ctx):
        for cycle in range(600):
            assert ctx.get(dut.wrong) == told.get(cycle, 0), cycle
            if cycle in due:
                found = ctx.get(dut.even), ctx.get(dut.odd)
                assert tuple(word.to_bytes(WORD, "little") for word in found) == due[cycle]
            # A read or a write reaches the memories a cycle later: flips keep away from both.
            if cycle % 8 == 4 and draw.random() < 0.7:
                await flip(ctx, draw.randrange(LINES), *map(draw.randrange, (2, WORD, 9)))
            quiet, touched = cycle % 8 in (3, 4), set()
            line, carry = draw.randrange(LINES), draw.randrange(2)
            reading = not quiet and draw.random() < 0.7
            ctx.set(dut.read_valid, reading)
            ctx.set(dut.read_line, line)
            ctx.set(dut.read_carry, carry)
            if reading:
                touched = {((line + carry) % LINES, 0), (line, 1)}
                words = {half: lines[at][half * WORD :][:WORD] for at, half in touched}
                due[cycle + 3] = bytes(words[0]), bytes(words[1])
                bad = any(flipped.get((*at, byte)) for at in touched for byte in range(WORD))
                counts[bad] += 1
                told[cycle + 5] = bad

            line, carry = draw.randrange(LINES), draw.randrange(2)
            places = {((line + carry) % LINES, 0), (line, 1)}
            writing = not quiet and draw.random() < 0.5 and not touched & places
            data, mask = draw.randbytes(2 * WORD), draw.randrange(1 << 2 * WORD)
            ctx.set(dut.write_valid, writing)
            ctx.set(dut.write_line, line)
            ctx.set(dut.write_carry, carry)
            ctx.set(dut.write_data, int.from_bytes(data, "little"))
            ctx.set(dut.write_mask, mask)
            for at, half in places if writing else ():
                for byte in range(WORD):
                    if mask >> half * WORD + byte & 1:
                        lines[at][half * WORD + byte] = data[half * WORD + byte]
                        flipped[at, half, byte] = 0
            await ctx.tick()

    simulate(dut, drive, cycles=610)
    assert min(counts[False], counts[True]) > 50


@pytest.mark.parametrize(("cycles", "told"), [(1, 0), (3, 0), (5, 1), (9, 1)])
def test_a_reset_forgets_wrong_parity_under_way(cycles, told):
    """The reset comes some cycles after the read; the flip stays, and the next read reports it."""
    dut = Bank(word_bytes=WORD, lines=LINES, parity=True)
    reset = Signal()

    async def drive(ctx):
        ctx.set(dut.memories[1].data[0], 1)
        for resets, expected in ((True, told), (False, 1)):
            seen = 0
            for cycle in range(12):
                seen += ctx.get(dut.wrong)
                ctx.set(dut.read_valid, cycle == 0)
                ctx.set(reset, resets and cycle == cycles)
                await ctx.tick()
            assert seen == expected

    simulate(ResetInserter(reset)(dut), drive, cycles=40)
