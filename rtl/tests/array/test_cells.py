"""The cells in each mode: every pair of operands, and tiles of different modes in a row."""

import dataclasses

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import PRESETS, Config
from matloom.arch.modes import MAC_MODES, NARROW_MODES
from matloom_rtl.array.array import Array
from matloom_rtl.array.cells import Cells, decode_flags, flags_layout
from matloom_rtl.testing import simulate

MODES = ("i8xi8", "i8xi4", "i4xi4")
CONFIGS = {
    "nano": dataclasses.replace(PRESETS["nano"], mac_modes=MODES),
    "words": dataclasses.replace(PRESETS["small"], mac_modes=("i8xi8", "i16xi8")),
    "all": dataclasses.replace(PRESETS["nano"], mac_modes=(*MODES, "i16xi8")),
    "8x16": Config(rows=8, columns=16, broadcast_group=8, bus_bits=128, mac_modes=MODES),
    "rows12": Config(
        rows=12, columns=8, broadcast_group=2, weight_rows=3, lanes=4, spad_bytes=16384,
        spad_banks=1,
        acc_bytes=8 * 4 * 16, mac_modes=("i8xi8", "i8xi4", "i16xi8"),
    ),
}  # fmt: skip
#: Cells that multiply side by side.
WIDTH = 64


def numbers(mode, vector, weights):
    """Return operands and two arrays of weights as integers; the second is None for bytes."""
    if mode == "i4xi4":
        vector = (vector.astype(np.int64) % 16 + 8) % 16 - 8
    if mode == "i16xi8":
        vector = vector.astype(np.int64)
        vector[::2] %= 256
        vector[1::2] *= 256
    if mode in ("i8xi8", "i16xi8"):
        return vector, weights.astype(np.int64), None
    low = (weights.astype(np.int64) % 16 + 8) % 16 - 8
    return vector, low, np.floor_divide(weights.astype(np.int64), 16)


def flags_of(mode, config):
    flags = {"narrow": mode in ("i8xi4", "i4xi4"), "nibbles": mode == "i4xi4"}
    flags["words"] = mode == "i16xi8"
    return {name: flags[name] for name, _ in flags_layout(config)}


class Products(wiring.Component):
    """Cells side by side, and the meaning of each product."""

    def __init__(self):
        config = CONFIGS["nano"]
        self.cells = Cells(config)
        super().__init__(
            {
                "flags": In(flags_layout(config)),
                "vector": In(8 * WIDTH),
                "weights": In(8 * WIDTH),
                "low": Out(16 * WIDTH),
                "high": Out(16 * WIDTH),
            }
        )

    def elaborate(self, platform):
        m = Module()
        operands, weights = [], []
        for index in range(WIDTH):
            byte = self.cells.operand(self.vector.word_select(index, 8), self.flags)
            operand = Signal(8)
            m.d.comb += operand.eq(byte)
            operands.append(operand.as_signed())
            weight = self.cells.weight(self.weights.word_select(index, 8), self.flags.narrow)
            weights.append(weight)
        products = self.cells.products(m, 0, operands, weights, None)
        low, high = [], []
        for product in products:
            parts = Signal(16, name="low"), Signal(16, name="high")
            m.d.comb += [
                parts[0].eq(product[:12].as_signed()),
                parts[1].eq(product[12:].as_signed() + product[11]),
            ]
            low.append(parts[0])
            high.append(parts[1])
        m.d.comb += [self.low.eq(Cat(low)), self.high.eq(Cat(high))]
        return m


@pytest.mark.slow
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("mode", MODES)
def test_every_pair_of_operands(mode):
    dut = Products()
    pairs = np.arange(2**16)
    vectors = (pairs >> 8).astype(np.uint8).view(np.int8)
    weights = (pairs & 255).astype(np.uint8).view(np.int8)
    operands, low, high = numbers(mode, vectors, weights)
    wanted = operands * low, np.zeros_like(low) if high is None else operands * high

    def word(values):
        return int.from_bytes(values.tobytes(), "little")

    def values(number):
        return np.frombuffer(number.to_bytes(2 * WIDTH, "little"), "<i2").astype(np.int64)

    async def drive(ctx):
        ctx.set(dut.flags, flags_of(mode, CONFIGS["nano"]))
        for first in range(0, len(pairs), WIDTH):
            ctx.set(dut.vector, word(vectors[first : first + WIDTH]))
            ctx.set(dut.weights, word(weights[first : first + WIDTH]))
            # Registers before and after the products.
            await ctx.tick().repeat(2)
            found = values(ctx.get(dut.low)), values(ctx.get(dut.high))
            here = slice(first, first + WIDTH)
            if mode == "i8xi8":
                assert (found[0] + 4096 * found[1] == wanted[0][here]).all()
            else:
                assert (found[0] == wanted[0][here]).all()
                assert (found[1] == wanted[1][here]).all()

    simulate(dut, drive, cycles=2 * len(pairs) // WIDTH + 2)


def bytes_of(rng, *shape):
    """Return bytes with many extremes, also of their nibbles."""
    values = rng.integers(-128, 128, shape)
    extremes = rng.choice([-128, 127, -1, 0x78 - 256, -0x78, 0x07, -0x80 + 7], shape)
    return np.where(rng.random(shape) < 0.4, extremes, values).astype(np.int8)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("gaps", [0, 0.4])
def test_tiles_of_all_modes_in_a_row(name, gaps, seed):
    """Each tile loads while the one before streams; sums arrive in their cycle, with their tag."""
    config, rng = CONFIGS[name], np.random.default_rng(seed)
    dut, groups = Array(config, 8), config.tile_load_cycles
    tiles = [
        (str(rng.choice(config.mac_modes)), bytes_of(rng, config.rows, config.columns))
        for _number in range(12)
    ]
    events = [{"write": (tiles[0], group)} for group in range(groups)]
    for number, (mode, tile) in enumerate(tiles):
        following = tiles[number + 1] if number + 1 < len(tiles) else None
        for count in range(groups + int(rng.integers(0, 4))):
            while rng.random() < gaps:
                events.append({})
            event = {"vector": bytes_of(rng, config.rows), "mode": mode, "tile": tile}
            event["switch"] = count == 0
            if following and count < groups:
                event["write"] = following, count
            events.append(event)
    expected = {}

    async def drive(ctx):
        for cycle in range(len(events) + dut.latency + 1):
            event = events[cycle] if cycle < len(events) else {}
            ctx.set(dut.valid, "vector" in event)
            ctx.set(dut.switch, event.get("switch", False))
            ctx.set(dut.tag, cycle % 256)
            ctx.set(dut.weight_writes, 0)
            if "vector" in event:
                mode = event["mode"]
                ctx.set(dut.flags, flags_of(mode, config))
                ctx.set(dut.vector, int.from_bytes(event["vector"].tobytes(), "little"))
                vector, low, high = numbers(mode, event["vector"], event["tile"])
                pair = vector @ low, None if high is None else vector @ high
                expected[cycle + dut.latency] = pair
            if "write" in event:
                (mode, tile), group = event["write"]
                first = group * config.weight_rows
                rows = tile[first : first + config.weight_rows]
                ctx.set(dut.weight_writes, 1 << group)
                if config.has_narrow:
                    ctx.set(dut.weight_narrow, mode in NARROW_MODES)
                ctx.set(dut.weight_data, int.from_bytes(rows.tobytes(), "little"))
            assert ctx.get(dut.o_valid) == (cycle in expected)
            if cycle in expected:
                first, second = expected[cycle]
                assert ctx.get(dut.o_tag) == (cycle - dut.latency) % 256
                assert [ctx.get(dut.o_sums[c]) for c in range(config.columns)] == first.tolist()
                if second is not None:
                    found = [ctx.get(dut.o_seconds[c]) for c in range(config.columns)]
                    assert found == second.tolist()
            await ctx.tick()

    simulate(dut, drive, cycles=len(events) + dut.latency + 2)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["words", "rows12"])
@pytest.mark.parametrize(("word", "weight"), [(-(2**15), -128), (-(2**15), 127), (2**15 - 1, -128)])
def test_extremes_of_words(name, word, weight):
    """All rows are at their extremes; no sum of a tree overflows."""
    config = CONFIGS[name]
    dut = Array(config, 8)
    vector = np.full(config.rows // 2, word, "<i2").tobytes()
    rows = np.full(config.weight_rows * config.columns, weight, np.int8).tobytes()

    async def drive(ctx):
        for group in range(config.tile_load_cycles):
            ctx.set(dut.weight_writes, 1 << group)
            ctx.set(dut.weight_data, int.from_bytes(rows, "little"))
            await ctx.tick()
        ctx.set(dut.weight_writes, 0)
        ctx.set(dut.valid, 1)
        ctx.set(dut.switch, 1)
        ctx.set(dut.flags, flags_of("i16xi8", config))
        ctx.set(dut.vector, int.from_bytes(vector, "little"))
        await ctx.tick()
        ctx.set(dut.valid, 0)
        await ctx.tick().repeat(dut.latency - 1)
        wanted = word * weight * config.rows // 2
        assert [ctx.get(dut.o_sums[c]) for c in range(config.columns)] == [wanted] * config.columns

    simulate(dut, drive, cycles=100)


@pytest.mark.parametrize(
    "modes",
    [
        ("i8xi8", "i8xi4"),
        ("i8xi8", "i16xi8"),
        (*MODES, "i16xi8"),
        ("i8xi8", "bf16"),
        ("i8xi8", "bf16", "fp16"),
        ("i8xi8", "fp8_e4m3", "fp8_e5m2", "fp16"),
        ("i8xi8", "i16xi8", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"),
    ],
)
def test_flags_of_every_mode(modes):
    """Each flag exists if an available mode needs it; a format is an index."""
    floats = [mode for mode in MAC_MODES if mode in modes and mode.startswith(("bf", "fp"))]
    config = dataclasses.replace(
        Config(), mac_modes=modes, weight_rows=2, float_rows=2 if floats else 0
    )
    number = Signal(range(len(MAC_MODES)))
    m = Module()
    flags = Signal(flags_layout(config))
    m.d.comb += [flags[name].eq(flag) for name, flag in decode_flags(number, config).items()]

    async def check(ctx):
        for mode in modes:
            ctx.set(number, MAC_MODES.index(mode))
            expected = {
                "narrow": mode in ("i8xi4", "i4xi4"),
                "nibbles": mode == "i4xi4",
                "words": mode == "i16xi8",
                "floating": mode in floats,
                "format": floats.index(mode) if mode in floats else 0,
            }
            needed = {
                "narrow": {"i8xi4", "i4xi4"} & set(modes),
                "nibbles": "i4xi4" in modes,
                "words": "i16xi8" in modes,
                "floating": floats,
                "format": len(floats) > 1,
            }
            found = ctx.get(flags)
            assert {name: found[name] for name, _ in flags_layout(config)} == {
                name: flag for name, flag in expected.items() if needed[name]
            }

    simulate(m, check, cycles=1)
