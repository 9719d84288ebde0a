"""Selection: every offset of several spans, one behind the other, and when the bytes come."""

import random

import pytest

from matloom_rtl.memory.select import Select, span_of
from matloom_rtl.testing import simulate

WORD = 8


@pytest.mark.parametrize("widths", [[1], [4], [3, 8], [2, 4, 8]])
def test_every_offset(widths):
    spans = [span_of(width) for width in widths]
    dut, draw = Select(spans=spans, word_bytes=WORD), random.Random(len(widths))
    reads = [(offset, width) for offset in range(2 * WORD) for width in widths] * 4
    draw.shuffle(reads)
    due = {}

    async def drive(ctx):
        for cycle in range(len(reads) + 5):
            if cycle < len(reads):
                offset, width = reads[cycle]
                ctx.set(dut.offset, offset)
                ctx.set(dut.span, dut.number_of(width))
            if 3 <= cycle < len(reads) + 3:
                offset, width = reads[cycle - 3]
                line, span = draw.randbytes(2 * WORD), span_of(width)
                ctx.set(dut.even, int.from_bytes(line[:WORD], "little"))
                ctx.set(dut.odd, int.from_bytes(line[WORD:], "little"))
                window = range(offset, offset + span)
                places = {place % span: place % (2 * WORD) for place in window}
                due[cycle + 1] = bytes(line[places[index]] for index in range(span))
            if cycle in due:
                found = ctx.get(dut.o).to_bytes(max(spans), "little")
                assert found[: len(due[cycle])] == due[cycle]
            await ctx.tick()

    simulate(dut, drive, cycles=len(reads) + 8)
    assert len(due) == len(reads)


def test_a_span_for_every_width():
    assert [span_of(width) for width in (1, 2, 3, 4, 5, 8, 9)] == [1, 2, 4, 4, 8, 8, 16]
