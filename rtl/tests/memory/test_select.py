"""Select: every offset of several spans, and the latency."""

import random

import pytest

from matloom_rtl.memory.select import Select, span_of
from matloom_rtl.testing import simulate

WORD = 8


@pytest.mark.parametrize("span", [1, 2, 4, 8])
def test_every_offset(span):
    dut, draw = Select(span=span, word_bytes=WORD), random.Random(span)
    reads = list(range(2 * WORD)) * 8
    draw.shuffle(reads)
    due = {}

    async def drive(ctx):
        for cycle in range(len(reads) + 5):
            if cycle < len(reads):
                ctx.set(dut.offset, reads[cycle])
            if 3 <= cycle < len(reads) + 3:
                line, offset = draw.randbytes(2 * WORD), reads[cycle - 3]
                ctx.set(dut.even, int.from_bytes(line[:WORD], "little"))
                ctx.set(dut.odd, int.from_bytes(line[WORD:], "little"))
                places = {
                    place % span: place % (2 * WORD) for place in range(offset, offset + span)
                }
                due[cycle + 1] = bytes(line[places[index]] for index in range(span))
            if cycle in due:
                assert ctx.get(dut.o).to_bytes(span, "little") == due[cycle]
            await ctx.tick()

    simulate(dut, drive, cycles=len(reads) + 8)
    assert len(due) == len(reads)


def test_a_span_for_every_width():
    assert [span_of(width) for width in (1, 2, 3, 4, 5, 8, 9)] == [1, 2, 4, 4, 8, 8, 16]
