"""Selection: every offset of several spans, one behind the other, and when the bytes come."""

import random

import pytest

from matloom_rtl.memory.select import Select, span_of
from matloom_rtl.testing import simulate

WORD = 8


@pytest.mark.parametrize("rests", [False, True])
@pytest.mark.parametrize("widths", [[1], [4], [3, 8], [2, 4, 8]])
def test_every_offset(widths, rests):
    spans = [span_of(width) for width in widths]
    dut = Select(spans=spans, word_bytes=WORD, rests=rests)
    draw = random.Random(len(widths))
    reads = [(offset, width) for offset in range(2 * WORD) for width in widths] * 4
    reads += [None] * len(reads)
    draw.shuffle(reads)
    due = {}

    async def drive(ctx):
        for cycle in range(len(reads) + 5):
            request = reads[cycle] if cycle < len(reads) else None
            if rests:
                ctx.set(dut.valid, request is not None)
            if request:
                offset, width = request
                ctx.set(dut.offset, offset)
                ctx.set(dut.span, dut.number_of(width))
            if 3 <= cycle < len(reads) + 3 and reads[cycle - 3]:
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
    assert len(due) == len(reads) // 2


def test_bytes_stay_where_registers_rest():
    dut, line = Select(spans=[2, 8], word_bytes=WORD, rests=True), range(2 * WORD)

    async def drive(ctx):
        ctx.set(dut.valid, 1)
        ctx.set(dut.offset, 5)
        ctx.set(dut.span, dut.number_of(8))
        await ctx.tick()
        ctx.set(dut.valid, 0)
        await ctx.tick().repeat(2)
        ctx.set(dut.even, int.from_bytes(line[:WORD], "little"))
        ctx.set(dut.odd, int.from_bytes(line[WORD:], "little"))
        await ctx.tick()
        for word in (dut.even, dut.odd):
            ctx.set(word, 0)
        await ctx.tick().repeat(4)
        assert list(ctx.get(dut.o).to_bytes(8, "little")) == [8, 9, 10, 11, 12, 5, 6, 7]

    simulate(dut, drive, cycles=12)


def test_a_span_for_every_width():
    assert [span_of(width) for width in (1, 2, 3, 4, 5, 8, 9)] == [1, 2, 4, 4, 8, 8, 16]
