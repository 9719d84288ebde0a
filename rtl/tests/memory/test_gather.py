"""Gather: every rotation of several widths, one read per cycle, bytes from two banks."""

import random

import pytest

from matloom_rtl.memory.gather import Gather
from matloom_rtl.testing import simulate

BANKS = 3


@pytest.mark.parametrize("found", [3, 4])
@pytest.mark.parametrize(
    ("width", "span", "boundary"),
    [
        (1, 1, 1),
        (3, 4, 1),
        (4, 4, 1),
        (4, 16, 1),
        (8, 8, 8),
        (24, 32, 8),
        (12, 16, 4),
        (64, 64, 64),
    ],
)
def test_every_rotation(width, span, boundary, found):
    dut = Gather(width=width, span=span, banks=BANKS, boundary=boundary, bank_latency=found)
    draw = random.Random(width)
    turns = list(range(0, span, boundary)) * 8
    reads = [(turn, draw.randrange(BANKS), draw.randrange(BANKS)) for turn in turns]
    due = {}

    async def drive(ctx):
        for cycle in range(len(reads) + 7):
            ctx.set(dut.valid, cycle < len(reads))
            if cycle < len(reads):
                turn, even_bank, odd_bank = reads[cycle]
                ctx.set(dut.request.even_bank, even_bank)
                ctx.set(dut.request.odd_bank, odd_bank)
                if span > 1:
                    ctx.set(dut.request.turn, turn)
            if found <= cycle < len(reads) + found:
                turn, even_bank, odd_bank = reads[cycle - found]
                banks = [draw.randbytes(span) for _bank in range(BANKS)]
                for bank, content in enumerate(banks):
                    ctx.set(dut.banks[bank], int.from_bytes(content, "little"))
                # From the first byte up, then what lies below it, of the other bank.
                due[cycle + 6 - found] = (banks[odd_bank][turn:] + banks[even_bank][:turn])[:width]
            if cycle in due:
                assert ctx.get(dut.data).to_bytes(width, "little") == due[cycle]
            await ctx.tick()

    simulate(dut, drive, cycles=len(reads) + 9)
    assert len(due) == len(reads)


def test_data_stay_until_the_next_read():
    dut = Gather(width=2, span=2, banks=2)

    async def drive(ctx):
        ctx.set(dut.valid, 1)
        ctx.set(dut.banks[0], 0x2211)
        await ctx.tick()
        ctx.set(dut.valid, 0)
        await ctx.tick().repeat(5)
        ctx.set(dut.banks[0], 0)
        await ctx.tick().repeat(4)
        assert ctx.get(dut.data) == 0x2211

    simulate(dut, drive, cycles=20)
