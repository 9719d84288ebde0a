"""Tables: filled row by row, read by every lane in every cycle."""

import random

import pytest
from amaranth.hdl import Fragment, ResetInserter, Signal

from matloom.arch.config import Config
from matloom_rtl.post.tables import Tables
from matloom_rtl.testing import simulate

CONFIGS = {
    "4_by_2": Config(rows=4, columns=4, broadcast_group=4, lanes=2, acc_bytes=1024),
    "12_by_3": Config(rows=12, columns=12, broadcast_group=4, lanes=3, acc_bytes=768),
    "16_by_16": Config(),
    "32_by_8": Config(rows=32, columns=32, lanes=8, acc_bytes=2**15),
    "4_by_2_in_blocks": Config(
        rows=4, columns=4, broadcast_group=4, lanes=2, acc_bytes=1024, tables=2
    ),
    "12_by_3_in_blocks": Config(
        rows=12, columns=12, broadcast_group=4, lanes=3, acc_bytes=768, tables=2
    ),
}


#: Configurations whose lanes have tables of their own.
BY_LANE = {
    "4_by_4": Config(
        rows=4, columns=4, broadcast_group=4, lanes=4, acc_bytes=1024, channel_tables=1
    ),
    "12_by_12": Config(
        rows=12, columns=12, broadcast_group=4, lanes=12, acc_bytes=768, channel_tables=1
    ),
    "16_by_16": Config(channel_tables=1),
}


async def fill(ctx, dut, config, contents, gaps, *, each=False):
    """Write bytes from row 0 on."""
    if config.has_channel_tables:
        ctx.set(dut.each, int(each))
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    size = config.table_row_bytes
    for first in range(0, len(contents), size):
        while gaps.random() < 0.3:
            await ctx.tick()
        ctx.set(dut.row, int.from_bytes(contents[first : first + size], "little"))
        ctx.set(dut.fill, 1)
        assert await wait(ctx, dut) == 0
        await ctx.tick()
        ctx.set(dut.fill, 0)
        assert await wait(ctx, dut) == (size if config.tables > 1 else 0)


async def wait(ctx, dut):
    """Wait for `ready`; return the cycles."""
    cycles = 0
    while not ctx.get(dut.ready):
        await ctx.tick()
        cycles += 1
    return cycles


async def look_up(ctx, dut, config, contents, generator, cycles=40):
    """Check an entry for each lane in every cycle, one cycle after its byte.

    Contents are 256 bytes, or as many for each lane.
    """
    starts = [lane * 256 % len(contents) for lane in range(config.lanes)]
    for _cycle in range(cycles):
        indices = [generator.randrange(256) for _ in range(config.lanes)]
        for lane, index in enumerate(indices):
            ctx.set(dut.index[lane], index)
        await ctx.tick()
        found = [ctx.get(dut.value[lane]) for lane in range(config.lanes)]
        assert found == [contents[s + index] for s, index in zip(starts, indices, strict=True)]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_entry_of_every_lane(seed, name):
    config, generator = CONFIGS[name], random.Random(seed)
    dut, contents = Tables(config), generator.randbytes(256)

    async def bench(ctx):
        await fill(ctx, dut, config, contents, generator)
        for index in range(256):
            for lane in range(config.lanes):
                ctx.set(dut.index[lane], index ^ lane)
            await ctx.tick()
            for lane in range(config.lanes):
                assert ctx.get(dut.value[lane]) == contents[index ^ lane]

    simulate(dut, bench, cycles=1000)


@pytest.mark.parametrize("name", ["16_by_16", "4_by_2_in_blocks"])
def test_a_second_fill_overwrites_the_first(seed, name):
    config, generator = CONFIGS[name], random.Random(seed)
    dut, first, second = Tables(config), generator.randbytes(256), generator.randbytes(96)

    async def bench(ctx):
        await fill(ctx, dut, config, first, generator)
        await look_up(ctx, dut, config, first, generator)
        await fill(ctx, dut, config, second, generator)
        await look_up(ctx, dut, config, second + first[96:], generator)

    simulate(dut, bench, cycles=1000)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_filling_begins_at_entry_0(seed, name):
    """A fill starts at entry 0, even if the fill before it stopped after some rows."""
    config, generator = CONFIGS[name], random.Random(seed)
    dut, size = Tables(config), config.table_row_bytes
    rows = 256 // size
    counts = [rows, 1, rows, rows - 1, 2, 1, *(generator.randint(1, rows) for _ in range(4))]

    async def bench(ctx):
        held = b""
        for count in counts:
            contents = generator.randbytes(count * size)
            await fill(ctx, dut, config, contents, generator)
            held = contents + held[len(contents) :]
            await look_up(ctx, dut, config, held, generator)

    simulate(dut, bench, cycles=10_000)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", BY_LANE)
def test_each_lane_has_entries_of_its_own(seed, name):
    """With `each`, rows fill one lane's table after another; the first follows the last."""
    config, generator = BY_LANE[name], random.Random(seed)
    dut, size = Tables(config), config.table_row_bytes
    every = 256 * config.lanes // size
    counts = [every, 1, every + 3, every - 1, *(generator.randint(1, every) for _ in range(3))]

    async def bench(ctx):
        held = b""
        for count in counts:
            contents = generator.randbytes(count * size)
            await fill(ctx, dut, config, contents, generator, each=True)
            wrapped = contents[every * size :]
            held = wrapped + (contents + held[len(contents) :])[len(wrapped) : every * size]
            await look_up(ctx, dut, config, held, generator)
            if generator.random() < 0.5:
                alike = generator.randbytes(size)
                await fill(ctx, dut, config, alike, generator)
                held = b"".join(
                    alike + held[first + size : first + 256] for first in range(0, len(held), 256)
                )
                await look_up(ctx, dut, config, held, generator)

    simulate(dut, bench, cycles=20_000)


@pytest.mark.parametrize("name", ["4_by_2", "4_by_2_in_blocks"])
def test_a_reset_keeps_entries_and_restarts_the_rows(seed, name):
    config, generator = CONFIGS[name], random.Random(seed)
    dut = Tables(config)
    reset = Signal()
    contents = generator.randbytes(256)

    async def bench(ctx):
        await fill(ctx, dut, config, contents, generator)
        ctx.set(dut.row, 0)
        ctx.set(dut.fill, 1)
        await ctx.tick()
        ctx.set(dut.fill, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        # What the reset stopped has not gone far.
        ctx.set(dut.row, int.from_bytes(contents[:4], "little"))
        ctx.set(dut.fill, 1)
        await ctx.tick()
        ctx.set(dut.fill, 0)
        await wait(ctx, dut)
        await look_up(ctx, dut, config, contents, generator)

    simulate(ResetInserter(reset)(dut), bench, cycles=1000)


@pytest.mark.fast_cases(1)
def test_sums_of_bytes(seed):
    """Sums of bytes come two cycles later, at full rate; then look-ups work again."""
    config, generator = Config(result_sums=1), random.Random(seed)
    dut, contents = Tables(config), generator.randbytes(256)

    def total(byte, other):
        rows = (byte & 15, byte >> 4, other & 15, other >> 4)
        words = (
            int.from_bytes(contents[16 * row + 4 * number :][:4], "little")
            for number, row in enumerate(rows)
        )
        value = (sum(words) + 2**31) % 2**32 - 2**31
        return min(max(value >> 22, -128), 127) & 255

    async def bench(ctx):
        await fill(ctx, dut, config, contents, generator)
        ctx.set(dut.adds, 1)
        expected = [None]
        for _ in range(200):
            pairs = [(generator.randrange(256), generator.randrange(256)) for _ in range(16)]
            for lane, (byte, other) in enumerate(pairs):
                ctx.set(dut.index[lane], byte)
                ctx.set(dut.other[lane], other)
            expected.append([total(*pair) for pair in pairs])
            await ctx.tick()
            before = expected[-2]
            assert before is None or [ctx.get(each) for each in dut.total] == before
        ctx.set(dut.adds, 0)
        await look_up(ctx, dut, config, contents, generator)

    simulate(dut, bench, cycles=1000)


@pytest.mark.parametrize("name", ["4_by_2_in_blocks", "12_by_3_in_blocks"])
def test_a_table_in_block_ram_has_two_ports(name):
    """A memory has two ports, as a block RAM does: a third one would need a copy of the memory."""
    config = CONFIGS[name]
    fragment = Fragment.get(Tables(config), None)
    for first in range(0, config.lanes, 2):
        memory = fragment.find_subfragment(f"table_{first}")
        assert len(memory._write_ports) == 1
        assert len(memory._read_ports) == min(2, config.lanes - first)
