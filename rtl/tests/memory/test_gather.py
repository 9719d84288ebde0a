"""Gathering: every offset of several widths, a read in each cycle, words of two banks."""

import random

import pytest

from matloom_rtl.memory.gather import Gather
from matloom_rtl.testing import simulate

WORD, BANKS = 8, 3


@pytest.mark.parametrize("width", [1, 3, 4, 8])
def test_every_offset(width):
    dut, draw = Gather(width=width, word_bytes=WORD, banks=BANKS), random.Random(width)
    reads = [
        {"offset": offset, "even_bank": draw.randrange(BANKS), "odd_bank": draw.randrange(BANKS)}
        for offset in list(range(2 * WORD)) * 4
    ]
    due = {}

    async def drive(ctx):
        for cycle in range(len(reads) + 6):
            ctx.set(dut.valid, cycle < len(reads))
            if cycle < len(reads):
                ctx.set(dut.request, reads[cycle])
            if 3 <= cycle < len(reads) + 3:
                read = reads[cycle - 3]
                words = [[draw.randbytes(WORD) for _bank in range(BANKS)] for _half in range(2)]
                for half, member in zip(words, (dut.even, dut.odd), strict=True):
                    for bank, word in enumerate(half):
                        ctx.set(member[bank], int.from_bytes(word, "little"))
                line = words[0][read["even_bank"]] + words[1][read["odd_bank"]]
                due[cycle + 2] = (line + line)[read["offset"] :][:width]
            if cycle in due:
                assert ctx.get(dut.data).to_bytes(width, "little") == due[cycle]
            await ctx.tick()

    simulate(dut, drive, cycles=len(reads) + 8)
