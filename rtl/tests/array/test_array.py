"""The array, compared with exact integer arithmetic: every sum, its tag and its cycle."""

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS, Config
from matloom_rtl.array.array import Array
from matloom_rtl.array.cells import operand_bits
from matloom_rtl.testing import cached_unit, simulate

MEMORIES = {"spad_bytes": 16384, "spad_banks": 1, "acc_bytes": 16 * 4 * 16}
CONFIGS = {
    "nano": PRESETS["nano"],
    "small": PRESETS["small"],
    "systolic": Config(rows=4, columns=4, broadcast_group=1, weight_rows=4, lanes=4, **MEMORIES),
    "rows12": Config(
        rows=12, columns=8, broadcast_group=2, weight_rows=3, lanes=4, spad_bytes=16384,
        spad_banks=1,
        acc_bytes=8 * 4 * 16,
    ),
    "blocks": Config(
        rows=12, columns=8, broadcast_group=2, weight_rows=4, lanes=4, spad_bytes=16384,
        spad_banks=1,
        acc_bytes=8 * 4 * 16,
    ),
    "wide": Config(columns=8, broadcast_group=4, lanes=4, windows=2, **MEMORIES),
    "8x16": Config(rows=8, columns=16, broadcast_group=8, bus_bits=128),
    "transposed": Config(
        rows=8, columns=8, broadcast_group=2, weight_rows=4, lanes=4, transposed_weights=1,
        **MEMORIES,
    ),
    "zero_points": Config(
        rows=12, columns=8, broadcast_group=2, weight_rows=4, lanes=4, zero_points=1,
        **MEMORIES,
    ),
}  # fmt: skip


class Oracle:
    """Model of the array: weights, windows and the current step; each call is one cycle."""

    def __init__(self, config):
        self.config = config
        self.shadow = np.zeros((config.rows, config.columns), np.int64)
        self.active = self.shadow.copy()
        self.past = []

    def step(self, vector=None, switch=False, write=None, window=None, block=None):
        sums = None
        if vector is not None:
            if switch:
                self.active = self.shadow.copy()
            operands = np.repeat(vector[:, np.newaxis], self.config.columns, axis=1)
            if window:
                newest = vector if block is None else block
                self.past = [newest] if window["number"] == 0 else [*self.past, newest]
                self._slide(operands, **window)
            sums = (operands.astype(np.int64) * self.active).sum(axis=0)
        if write is not None:
            group, rows, *transposed = write
            first = group * self.config.weight_rows
            shadow = self.shadow.T if any(transposed) else self.shadow
            shadow[first : first + self.config.weight_rows] = rows
        return sums

    def _slide(self, operands, number, line, pad, paired, shape=0):
        """Fill the rows of the window as decision 0002 defines."""
        columns = self.config.columns
        if paired:
            self._slide_blocks(operands, number, line, pad)
            return
        lines = {0: [3] * self.config.window_lines, 1: [15], 2: [5, 5, 5], 3: [8, 7]}[shape]
        taps = [(y, x) for y, count in enumerate(lines) for x in range(count)]
        for row, (tap_y, tap_x) in enumerate(taps):
            index = number - (len(lines) - 1 - tap_y) * line - (lines[tap_y] - 1 - tap_x)
            operands[row] = self.past[index][:columns] if index >= 0 else pad

    def _slide_blocks(self, operands, number, line, pad):
        """Fill the rows of the window for blocks of 2 x 2 positions, (x, y, column)."""
        columns = self.config.columns
        corners = (number - line - 1, number - line, number - 1, number)
        blocks = [
            self.past[index].reshape(2, 2, columns) if index >= 0 else np.full((2, 2, columns), pad)
            for index in corners
        ]
        image = np.concatenate(
            [np.concatenate(blocks[:2], axis=0), np.concatenate(blocks[2:], axis=0)], axis=1
        )
        for tap_y in range(3):
            for tap_x in range(3):
                operands[3 * tap_y + tap_x] = image[tap_x, tap_y]


def draw(config, rng, cycles, vector_rate, write_rate):
    """Return random inputs of each cycle; operands are often at their extremes."""
    groups = config.tile_load_cycles
    low, high = (-255, 255) if config.zero_points else (-128, 127)

    def numbers(*shape):
        values = rng.integers(low, high + 1, shape)
        return np.where(rng.random(shape) < 0.2, rng.choice([low, high], shape), values)

    def write(group):
        rows = numbers(config.weight_rows, config.columns)
        transposed = (bool(rng.integers(2)),) if config.transposed_weights else ()
        return group, rows, *transposed

    # A whole tile first, so that no sum depends on registers never written.
    events = [{"write": write(group)[:2]} for group in range(groups)]
    events.append({"vector": numbers(config.rows), "switch": True})
    for _cycle in range(cycles):
        event = {}
        if rng.random() < vector_rate:
            event = {"vector": numbers(config.rows), "switch": bool(rng.random() < 0.3)}
        if rng.random() < write_rate:
            event["write"] = write(int(rng.integers(groups)))
        events.append(event)
    return events


def add_windows(config, rng, events):
    """Make some steps slide, between dense ones."""
    window, left = None, 0
    for event in events:
        if "vector" not in event:
            continue
        if left == 0:
            left, number = int(rng.integers(1, 30)), 0
            slides = config.has_windows and rng.random() < 0.7
            window = {"line": int(rng.integers(3, 9)), "pad": int(rng.integers(-128, 128))}
            window["paired"] = bool(config.has_paired_windows and rng.random() < 0.6)
            if config.has_wide_windows and not window["paired"]:
                window["shape"] = int(rng.integers(4))
        if slides:
            event["window"] = window | {"number": number}
            # Windows are of bytes.
            event["vector"] = event["vector"].clip(-128, 127)
            if window["paired"]:
                # Blocks and weights come the same way.
                event.pop("write", None)
                event["vector"] = np.full(config.rows, window["pad"])
                event["block"] = rng.integers(-128, 128, 4 * config.columns)
        left, number = left - 1, number + 1
    return events


def present_window(ctx, dut, event, following, config):
    """Present how the vector slides, and the position of the next one."""
    window, after = event.get("window"), following.get("window")
    ctx.set(dut.position, after["number"] % after["line"] if after else 0)
    number, line = (window["number"], window["line"]) if window else (0, 3)
    pad = window["pad"] & 255 if window else 85
    flags = {"window": window is not None, "shift": number > 0, "recall": number >= line}
    if config.has_paired_windows:
        flags["paired"] = "block" in event
    if config.has_wide_windows:
        flags["shapes"] = bool(window) << (window or {}).get("shape", 0)
    ctx.set(dut.slide, flags | {"pad": pad})


def packed(values, bits):
    """Return numbers of `bits` bits packed into one, the first lowest."""
    return sum(int(each) % 2**bits << bits * at for at, each in enumerate(values.reshape(-1)))


def present(ctx, dut, event, tag):
    bits = operand_bits(dut._config)
    vector, write, block = (event.get(name) for name in ("vector", "write", "block"))
    ctx.set(dut.valid, vector is not None)
    ctx.set(dut.switch, event.get("switch", False))
    ctx.set(dut.tag, tag)
    if vector is not None:
        ctx.set(dut.vector, packed(vector, bits))
    ctx.set(dut.weight_writes, 0 if write is None else 1 << write[0])
    if write is not None:
        ctx.set(dut.weight_data, packed(write[1], bits))
        if hasattr(dut, "weight_transposed"):
            ctx.set(dut.weight_transposed, any(write[2:]))
    if block is not None:
        ctx.set(dut.weight_data, packed(block, bits))


def play(config, events):
    """Present the events; compare the outputs in every cycle."""
    dut = cached_unit(Array, config, 8)
    oracle, expected = Oracle(config), {}

    async def drive(ctx):
        for cycle in range(len(events) + dut.latency + 1):
            event = events[cycle] if cycle < len(events) else {}
            present(ctx, dut, event, cycle % 256)
            following = events[cycle + 1] if cycle + 1 < len(events) else {}
            present_window(ctx, dut, event, following, config)
            sums = oracle.step(**event)
            if sums is not None:
                expected[cycle + dut.latency] = sums
            assert ctx.get(dut.o_valid) == (cycle in expected)
            if cycle in expected:
                assert ctx.get(dut.o_tag) == (cycle - dut.latency) % 256
                actual = [ctx.get(dut.o_sums[column]) for column in range(config.columns)]
                assert actual == expected[cycle].tolist()
            await ctx.tick()

    simulate(dut, drive, cycles=len(events) + dut.latency + 2)


@pytest.mark.fast_cases(9)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("vector_rate", "write_rate"), [(1, 1), (0.5, 0.5)], ids=str)
def test_sums_match_integer_products(name, vector_rate, write_rate):
    config = CONFIGS[name]
    play(config, draw(config, np.random.default_rng(1), 60, vector_rate, write_rate))


def test_reference():
    config = PRESETS["reference"]
    play(config, draw(config, np.random.default_rng(2), 20, 0.9, 0.9))


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("vector_rate", [1, 0.6])
def test_windows_among_dense_vectors(name, vector_rate, seed):
    config, rng = CONFIGS[name], np.random.default_rng(seed)
    play(config, add_windows(config, rng, draw(config, rng, 120, vector_rate, 0.5)))


def test_windows_of_the_reference():
    config, rng = PRESETS["reference"], np.random.default_rng(6)
    play(config, add_windows(config, rng, draw(config, rng, 60, 1, 0.9)))


def test_tiles_follow_without_a_gap():
    """Weights of the next tile load while this one streams; each switch selects its own tile."""
    config, rng = PRESETS["small"], np.random.default_rng(3)
    groups = config.tile_load_cycles
    events = draw(config, rng, 0, 0, 0)
    for _tile in range(6):
        for group in range(groups):
            rows = rng.integers(-128, 128, (config.weight_rows, config.columns))
            # The first row of the next tile arrives together with the switch to this one.
            events.append(
                {
                    "vector": rng.integers(-128, 128, config.rows),
                    "switch": group == 0,
                    "write": (group, rows),
                }
            )
    play(config, events)


@pytest.mark.parametrize(
    ("config", "operand"),
    [(PRESETS["reference"], -128), (CONFIGS["zero_points"], -255)],
    ids=["bytes", "differences"],
)
def test_largest_sum(config, operand):
    tile = np.full((config.rows, config.columns), operand)
    events = [
        {"write": (group, tile[: config.weight_rows])} for group in range(config.tile_load_cycles)
    ]
    events.append({"vector": np.full(config.rows, operand), "switch": True})
    play(config, events)


@pytest.mark.parametrize("name", ["nano", "systolic"])
def test_reset_midway(name):
    config, rng = CONFIGS[name], np.random.default_rng(5)
    dut = Array(config, 8)
    reset = Signal()
    before, after = draw(config, rng, 20, 1, 1), draw(config, rng, 20, 0.7, 0.7)
    outputs = []

    async def drive(ctx):
        for event in before:
            present(ctx, dut, event, 1)
            await ctx.tick()
        present(ctx, dut, {}, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        oracle = Oracle(config)
        expected = []
        for event in [*after, *[{}] * dut.latency]:
            present(ctx, dut, event, 2)
            sums = oracle.step(**event)
            if sums is not None:
                expected.append(sums.tolist())
            await ctx.tick()
            if ctx.get(dut.o_valid):
                assert ctx.get(dut.o_tag) == 2
                outputs.append([ctx.get(dut.o_sums[c]) for c in range(config.columns)])
        assert outputs == expected

    simulate(ResetInserter(reset)(dut), drive, cycles=200)
