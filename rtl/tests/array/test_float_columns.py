"""FloatColumns: sums of every format in the stated order, changing weights, exact latency."""

import dataclasses

import numpy as np
import pytest

from matloom.arch.config import PRESETS, Config
from matloom.arch.floats import FLOAT_FORMATS, add, multiply
from matloom_rtl.array.float_columns import FloatColumns
from matloom_rtl.testing import simulate

ALL = ("i8xi8", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2")
CONFIGS = {
    "one": dataclasses.replace(PRESETS["nano"], weight_rows=2, mac_modes=ALL[:3:2], float_rows=1),
    "two": dataclasses.replace(PRESETS["nano"], weight_rows=2, mac_modes=ALL, float_rows=2,
                               broadcast_group=1),
    "four": Config(
        rows=8, columns=4, broadcast_group=2, weight_rows=4, lanes=4, spad_bytes=16384,
        spad_banks=1,
        acc_bytes=4 * 4 * 16, mac_modes=ALL[:2], float_rows=4,
    ),
    "bytes": dataclasses.replace(
        PRESETS["nano"], weight_rows=4, mac_modes=("i8xi8", *ALL[3:]), float_rows=2
    ),
}  # fmt: skip


def column_sums(elements, weights, form):
    """Return the fp32 patterns of each column by the number rules: a balanced tree."""
    terms = [multiply(np.int64(a), row, form) for a, row in zip(elements, weights, strict=True)]
    while len(terms) > 1:
        terms = [add(low, high) for low, high in zip(terms[::2], terms[1::2], strict=True)]
    return terms[0].tolist()


def vector_bytes(elements, size, rows, rng):
    """Return a vector as a number, with noise beyond its elements."""
    raw = b"".join(int(each).to_bytes(size, "little") for each in elements)
    return int.from_bytes(raw + rng.bytes(rows - len(raw)), "little")


def tile_rows(weights, size, config, rng):
    """Return the tile as bytes (rows, columns): element k in rows 2k and 2k + 1."""
    tile = np.frombuffer(rng.bytes(config.tile_bytes), np.uint8).copy()
    tile = tile.reshape(config.rows, config.columns)
    for element, row in enumerate(weights):
        tile[2 * element] = row & 255
        if size == 2:
            tile[2 * element + 1] = row >> 8
    return tile


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CONFIGS)
def test_sums(name, seed):
    """Tiles of all formats in turn; each is written while the one before is in use."""
    config, rng = CONFIGS[name], np.random.default_rng(seed)
    dut, latency = FloatColumns(config), FloatColumns.latency_of(config)
    elements = config.float_rows
    due, tiles = {}, 12

    async def bench(ctx):
        cycle = 0
        waiting = []
        for number in range(tiles + 1):
            index = number % len(config.float_modes)
            form = FLOAT_FORMATS[config.float_modes[index]]
            weights = rng.integers(0, 1 << form.bits, (elements, config.columns))
            rows = tile_rows(weights, form.bytes, config, rng)
            rows = rows.reshape(config.tile_load_cycles, -1)
            for beat in range(max(config.tile_load_cycles, len(waiting))):
                writes = beat < config.tile_load_cycles
                ctx.set(dut.weight_writes, writes << beat)
                if writes:
                    ctx.set(dut.weight_data, int.from_bytes(rows[beat].tobytes(), "little"))
                    ctx.set(dut.weight_format, index)
                ctx.set(dut.valid, beat < len(waiting))
                if beat < len(waiting):
                    vector, sums, before = waiting[beat]
                    ctx.set(dut.vector, vector)
                    ctx.set(dut.switch, beat == 0)
                    ctx.set(dut.format, before)
                    due[cycle + latency] = sums
                check(ctx, cycle)
                await ctx.tick()
                cycle += 1
            waiting = []
            for _vector in range(rng.integers(1, 5)):
                held = rng.integers(0, 1 << form.bits, elements)
                sums = column_sums(held, weights, form)
                waiting.append((vector_bytes(held, form.bytes, config.rows, rng), sums, index))
        ctx.set(dut.valid, 0)
        for _rest in range(latency + 1):
            check(ctx, cycle)
            await ctx.tick()
            cycle += 1
        assert not due

    def check(ctx, cycle):
        if cycle in due:
            assert [ctx.get(each) for each in dut.o_sums] == due.pop(cycle), cycle

    simulate(dut, bench, cycles=2000)


def test_latency():
    """The latency is the sum of unpacking (2), operands (1), product (5 or 2) and adder tree.

    A level of the tree takes seven cycles; each broadcast group but the first adds one.
    """
    latencies = {name: FloatColumns.latency_of(config) for name, config in CONFIGS.items()}
    assert latencies == {"one": 5, "two": 18, "four": 23, "bytes": 12}
