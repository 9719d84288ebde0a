"""One bank: words side by side and across lines, and the cycles in which they come."""

import random

from amaranth.hdl import ResetInserter, Signal

from matloom_rtl.memory.bank import Bank
from matloom_rtl.testing import simulate

WORD, LINES = 4, 8


def test_lines_and_carries():
    """One read and one write in each cycle; a read sees the writes of all cycles before."""
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
    dut, reset = Bank(word_bytes=WORD, lines=LINES), Signal()

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
