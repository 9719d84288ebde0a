"""Windows: the operands after every vector, sliding or dense, by decision 0002."""

import dataclasses
import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS, Config
from matloom_rtl.array.windows import Windows
from matloom_rtl.testing import simulate

#: Window lines: 1, 2, 3 and more, the last two with blocks; with a column group that is not the
#: first where there are two.
CONFIGS = {
    "4x4": PRESETS["nano"],
    "8x8": PRESETS["small"],
    "16x8": dataclasses.replace(PRESETS["small"], rows=16, broadcast_group=2),
    "12x8": dataclasses.replace(PRESETS["small"], rows=12, broadcast_group=2, weight_rows=4),
    "16x16": Config(windows=1),
    "wide": dataclasses.replace(PRESETS["small"], rows=16, broadcast_group=2, windows=2),
    "wide, blocks": Config(columns=8, broadcast_group=2, lanes=8, windows=2),
}

#: For each shape the lines and positions that the taps of each row lie back, row 0 first.
LINES = {
    1: [(0, 14 - row) for row in range(15)],
    2: [(2 - row // 5, 4 - row % 5) for row in range(15)],
    3: [(1, 7 - row) for row in range(8)] + [(0, 6 - row) for row in range(7)],
}


def draw_step(generator, config, window):
    """Return the vectors, or blocks, of a step, each with those before it."""
    paired = bool(window and config.has_paired_windows and generator.random() < 0.6)
    size = 4 * config.columns if paired else config.rows
    line = generator.choice(
        (3, 3, 4, 5, 9, generator.randint(3, 40), 255 - generator.randint(0, 1))
    )
    count = generator.choice((1, 2, line - 1, line, 2 * line, 2 * line + 1, 4 * line + 3))
    pad = generator.randint(-128, 127)
    vectors = [
        [generator.randint(-128, 127) for _byte in range(size)] for _ in range(min(count, 600))
    ]
    shape = generator.randint(0, 3) if config.has_wide_windows and window and not paired else 0
    kind = {"window": window, "paired": paired, "line": line, "pad": pad, "shape": shape}
    return [kind | {"past": vectors[: number + 1]} for number in range(len(vectors))]


def draw(generator, config, *, steps, gaps):
    events = []
    for _step in range(steps):
        for event in draw_step(generator, config, generator.random() < 0.7):
            while generator.random() < gaps:
                events.append(None)
            events.append(event)
    return events


def expected(event, config, column, row):
    """Return the operand of a cell, by definition."""
    past, lines = event["past"], config.window_lines
    taps = LINES.get(event["shape"], [(lines - 1 - row // 3, 2 - row % 3) for row in range(9)])
    dense = not event["window"] or row >= (len(taps) if event["shape"] else 3 * lines)
    if dense:
        return event["pad"] if event["paired"] else past[-1][row]
    tap_y, tap_x = divmod(row, 3)
    if event["paired"]:
        # Positions from the upper left one of the block above and to the left.
        index = len(past) - 1 - (1 - tap_y // 2) * event["line"] - (1 - tap_x // 2)
        byte = (2 * (tap_x % 2) + tap_y % 2) * config.columns + column
        return past[index][byte] if index >= 0 else event["pad"]
    lines_ago, positions_ago = taps[row]
    index = len(past) - 1 - lines_ago * event["line"] - positions_ago
    return past[index][column] if index >= 0 else event["pad"]


def position(event):
    return (len(event["past"]) - 1) % event["line"] if event else 0


def pack(values):
    return sum((byte & 255) << 8 * place for place, byte in enumerate(values))


def present(ctx, dut, event, following, config, first_column):
    ctx.set(dut.position, position(following))
    ctx.set(dut.valid, event is not None)
    if event:
        past, window = event["past"], event["window"]
        slide = {
            "window": window,
            "shift": window and len(past) > 1,
            "recall": window and len(past) > event["line"],
            "pad": event["pad"] & 255,
        }
        if config.has_paired_windows:
            slide["paired"] = event["paired"]
            starts = range(first_column, 4 * config.columns, config.columns)
            own = [byte for at in starts for byte in past[-1][at : at + config.broadcast_group]]
            ctx.set(dut.block, pack(own) if event["paired"] else 0x5A5A)
        ctx.set(dut.vector, pack([event["pad"]] * config.rows if event["paired"] else past[-1]))
        if config.has_wide_windows:
            slide["shapes"] = bool(window) << event["shape"]
        ctx.set(dut.slide, slide)


def play(config, events, *, first_column=0, reset_after=None):
    """Present the events, before and after a reset; compare the operands in every cycle."""
    dut = Windows(config, first_column)
    reset = Signal()

    async def bench(ctx):
        wanted = None
        for number, event in enumerate(events):
            following = events[number + 1] if number + 1 < len(events) else None
            present(ctx, dut, event, following, config, first_column)
            ctx.set(reset, number == reset_after)
            await ctx.tick()
            wanted = event or wanted
            if wanted is None or (reset_after is not None and number <= reset_after):
                continue
            for column in range(config.broadcast_group):
                actual = [ctx.get(dut.operands[column][row]) for row in range(len(dut.operands[0]))]
                assert actual == [
                    expected(wanted, config, first_column + column, row)
                    for row in range(config.window_rows)
                ], f"event {number}, column {column}"

    simulate(ResetInserter(reset)(dut), bench, cycles=len(events) + 3)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("gaps", [0, 0.4])
def test_operands_of_mixed_steps(name, gaps, seed):
    config, generator = CONFIGS[name], random.Random(seed)
    events = draw(generator, config, steps=14, gaps=gaps)[:700]
    play(config, events, first_column=config.columns - config.broadcast_group)


@pytest.mark.parametrize(("name", "shape"), [("16x8", 0), ("wide", 2), ("wide", 3)])
def test_shortest_lines_without_a_gap(name, shape, seed):
    """The line memory is written immediately before the position is read again."""
    config, generator = CONFIGS[name], random.Random(seed)
    rows = range(config.rows)
    vectors = [[generator.randint(-128, 127) for _row in rows] for _ in range(60)]
    play(
        config,
        [
            {"window": 1, "paired": 0, "line": 3, "pad": 7, "shape": shape}
            | {"past": vectors[: number + 1]}
            for number in range(len(vectors))
        ],
    )


def test_reset_midway(seed):
    config, generator = CONFIGS["8x8"], random.Random(seed)
    before = draw(generator, config, steps=3, gaps=0)[:50]
    play(config, [*before, None, *draw(generator, config, steps=3, gaps=0.2)], reset_after=50)
