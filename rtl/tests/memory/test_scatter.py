"""Scatter: every offset of several widths, a write per cycle."""

import random

import pytest

from matloom_rtl.memory.scatter import Scatter
from matloom_rtl.testing import simulate

WORD = 8


@pytest.mark.parametrize("width", [1, 3, 4, 8])
def test_every_offset(width):
    dut, draw = Scatter(width=width, word_bytes=WORD), random.Random(width)
    writes = [
        (offset, draw.randbytes(width), draw.randrange(1 << width))
        for offset in list(range(2 * WORD)) * 3
    ]

    async def drive(ctx):
        for cycle in range(len(writes) + 2):
            if cycle < len(writes):
                offset, _data, mask = writes[cycle]
                ctx.set(dut.offset, offset)
                ctx.set(dut.mask, mask)
            if 1 <= cycle <= len(writes):
                ctx.set(dut.data, int.from_bytes(writes[cycle - 1][1], "little"))
            if cycle >= 2:
                offset, data, mask = writes[cycle - 2]
                placed = ctx.get(dut.o_data).to_bytes(2 * WORD, "little")
                expected = 0
                for index in range(width):
                    if mask >> index & 1:
                        place = (offset + index) % (2 * WORD)
                        expected |= 1 << place
                        assert placed[place] == data[index]
                assert ctx.get(dut.o_mask) == expected
            await ctx.tick()

    simulate(dut, drive, cycles=len(writes) + 4)
