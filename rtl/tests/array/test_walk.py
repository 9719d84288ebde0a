"""Walk: addresses, padding and entries of every vector, and their timing."""

import dataclasses
import itertools
import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS, Config
from matloom.arch.isa import Opcode
from matloom.arch.modes import MAC_MODES
from matloom_rtl.array.walk import Walk
from matloom_rtl.ports import ACC_UPDATE_LATENCY, body_layout
from matloom_rtl.testing import simulate

CONFIG = PRESETS["nano"]
WIDE = dataclasses.replace(CONFIG, rows=16, weight_rows=4, windows=2)
WITHOUT_WINDOWS = dataclasses.replace(CONFIG, columns=8, lanes=2, acc_bytes=8 * 1024)
#: The memories that take every bit of an address.
LARGEST = dataclasses.replace(CONFIG, spad_bytes=2**24, spad_banks=16, acc_bytes=2**19)

#: Cycles from the start of a vector, or a pause, until it arrives.
LATENCY = 4

#: What a vector shows as it is.
SIMPLE = ("add", "maximum", "switch", "pad", "last", "output", "first")

PLAIN = {
    "timestamp": 3,
    "input_addr": 100,
    "input_pitch": 40,
    "input_rows": 5,
    "input_row_bytes": 33,
    "first_row": -1,
    "first_byte": -3,
    "pad_value": -7,
    "width": 3,
    "height": 2,
    "x_step": 6,
    "y_step": 2,
    "kernel_rows": 3,
    "kernel_row_step": 1,
    "kernel_cols": 2,
    "kernel_col_step": 3,
    "blocks": 2,
    "oc_blocks": 2,
    "oc_step": 4,
    "acc_addr": 9,
}

#: A 3 x 3 kernel on a 9 x 5 image in lines of ten, the padded line above it left out.
SLIDING = PLAIN | {
    "window": 1,
    "width": 10,
    "height": 6,
    "y_step": 1,
    "kernel_cols": 1,
    "blocks": 1,
    "line": 10,
    "first_output": 11,
    "out_width": 9,
    "out_height": 5,
}


def expected_vectors(command, rows=CONFIG.rows):
    """Return the vectors by the loops that the instruction set defines."""
    c = {name: 0 for name, _ in body_layout(Opcode.EXEC, CONFIG)} | command
    found = []
    made = [not c["window"] or is_output(c, number) for number in range(c["height"] * c["width"])]
    for block_oc in range(c["oc_blocks"]):
        for kernel_row in range(c["kernel_rows"]):
            for kernel_col in range(c["kernel_cols"]):
                for block in range(c["blocks"]):
                    for y in range(c["height"]):
                        for x in range(c["width"]):
                            row = c["first_row"] + y * c["y_step"]
                            row += kernel_row * c["kernel_row_step"]
                            byte = c["first_byte"] + x * c["x_step"] + block * rows
                            byte += kernel_col * c["kernel_col_step"] + block_oc * c["oc_step"]
                            row_valid = 0 <= row < c["input_rows"]
                            valid = [
                                row_valid and 0 <= byte + i < c["input_row_bytes"]
                                for i in range(rows)
                            ]
                            address = c["input_addr"] + row * c["input_pitch"] + byte
                            number = y * c["width"] + x
                            entry = c["acc_addr"] + block_oc * sum(made) + sum(made[:number])
                            line = max(c["line"], 3)
                            first = kernel_row == kernel_col == block == 0
                            start = x == y == 0
                            switch = start and (not c["weights_fixed"] or (first and block_oc == 0))
                            found.append(
                                {
                                    "valid": valid,
                                    "address": address % 2**24 if any(valid) else None,
                                    "entry": entry if made[number] else None,
                                    "output": int(made[number]),
                                    "window": c["window"],
                                    "first": int(start),
                                    "place": (number % line, int(number < line))
                                    if c["window"]
                                    else None,
                                    "add": int(not first or c["accumulate"]),
                                    "maximum": c["maximum"],
                                    "switch": int(switch),
                                    "last_tile": 0,
                                    "pad": c["pad_value"] % 256,
                                    "last": 0,
                                }
                            )
    found[-1]["last"] = 1
    [each for each in found if each["switch"]][-1]["last_tile"] = 1
    return found


def is_output(command, number):
    """Return whether a vector of a step is an output, by decision 0002."""
    oy, ox = divmod(number - command["first_output"], max(command["line"], 3))
    x_step, y_step = command["out_x_skip"] + 1, command["out_y_skip"] + 1
    return (
        number >= command["first_output"]
        and ox % x_step == oy % y_step == 0
        and ox // x_step < command["out_width"]
        and oy // y_step < command["out_height"]
    )


def observed(payload, rows=CONFIG.rows):
    valid = [bool(payload.row_valid and payload.low <= i < payload.high) for i in range(rows)]
    # Without windows there is nothing to tell of them.
    window = "window" in dict(payload.shape())
    place = window and payload.window
    return {
        "valid": valid,
        "address": int(payload.address) % 2**24 if any(valid) else None,
        "entry": int(payload.entry) if payload.output else None,
        "place": (int(payload.position), int(payload.first_line)) if place else None,
        "window": int(payload.window) if window else 0,
        "last_tile": int(payload.switch and payload.last_tile),
        **{name: int(payload[name]) for name in SIMPLE},
    }


def run(commands, *, config=CONFIG, gaps=0.0, stalls=0.0, seed=0, reset_at=None, limit=20000):
    """Return the vectors and their cycles; with stalls, their positions in the queue."""
    dut = Walk(config)
    generator = random.Random(seed)
    reset = Signal()
    wanted = sum(len(expected_vectors(command)) for command in commands)
    vectors, cycles = [], []
    # Vectors of all commands offered so far.
    due = 0

    async def feed(ctx):
        nonlocal due
        if reset_at is not None:
            ctx.set(dut.i.payload, {**commands[0], "width": 4000})
            ctx.set(dut.i.valid, 1)
            for cycle in range(reset_at):
                await ctx.tick()
                if cycle == 1:
                    ctx.set(dut.i.valid, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            vectors.clear()
            cycles.clear()
        for command in commands:
            while generator.random() < gaps:
                await ctx.tick()
            ctx.set(dut.i.payload, command)
            ctx.set(dut.i.valid, 1)
            due += len(expected_vectors(command))
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def collect(ctx):
        cycle, place, begun, offered = 0, 0, [0] * LATENCY, [0, 0]
        while len(vectors) < wanted:
            ctx.set(dut.room, generator.random() >= stalls)
            _clk, _rst, room, start, valid, paused, active, vector = await ctx.tick().sample(
                *(dut.room, dut.start, dut.valid, dut.paused, dut.active, dut.vector)
            )
            assert room or not start
            # A command that was offered two cycles ago is waiting or in progress.
            assert active or valid or reset_at is not None or offered[-2] <= len(vectors)
            begun.append(start)
            if reset_at is None:
                assert begun[-1 - LATENCY] == valid + paused
            if valid and not (reset_at is not None and cycle <= reset_at):
                vectors.append(observed(vector))
                cycles.append(place if stalls else cycle)
            cycle, place = cycle + 1, place + valid + paused
            offered.append(due)

    wrapped = ResetInserter(reset)(dut)
    simulate(wrapped, feed, collect, cycles=limit)
    return vectors, cycles


def random_command(generator):
    command = dict(PLAIN)
    for name, high in {
        "width": 6,
        "height": 4,
        "kernel_rows": 3,
        "kernel_cols": 2,
        "blocks": 3,
        "oc_blocks": 2,
    }.items():
        command[name] = generator.randint(1, high)
    for name in ("accumulate", "maximum", "weights_fixed"):
        command[name] = generator.randint(0, 1)
    command["first_row"] = generator.randint(-4, 4)
    command["first_byte"] = generator.randint(-12, 40)
    command["x_step"] = generator.choice([0, 1, 6, 2**15 - 1])
    command["y_step"] = generator.choice([0, 1, 2, 255])
    command["kernel_col_step"] = generator.choice([0, 3, 2**15 - 1])
    return command | random_window(generator) if generator.random() < 0.5 else command


def random_window(generator):
    line = generator.choice((0, 2, 3, 4, 6, 255))
    return {
        "window": 1,
        "line": line,
        "first_output": generator.choice((0, 1, line + 1, 20, 1023)),
        "out_width": generator.choice((0, 1, 2, 4095)),
        "out_height": generator.choice((0, 1, 2, 4095)),
        "out_x_skip": generator.randint(0, 3),
        "out_y_skip": generator.randint(0, 3),
    }


def test_values_and_one_vector_a_cycle():
    vectors, cycles = run([PLAIN, PLAIN])
    assert vectors == expected_vectors(PLAIN) * 2
    # The second command follows without a gap: one vector per cycle throughout.
    assert [after - before for before, after in itertools.pairwise(cycles)] == [1] * (
        len(cycles) - 1
    )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("gaps", "stalls"), [(0.5, 0.5), (0, 0.5), (0.9, 0)])
def test_stalled_either_side(seed, gaps, stalls):
    generator = random.Random(seed)
    commands = [random_command(generator) for _ in range(12)]
    vectors, _cycles = run(commands, gaps=gaps, stalls=stalls, seed=seed)
    assert vectors == [item for command in commands for item in expected_vectors(command)]


def test_an_entry_is_never_revisited_too_early(seed):
    """Vectors of the same entry are far enough apart in short steps and accumulating commands."""
    single = PLAIN | {"width": 1, "height": 1, "oc_blocks": 1}
    commands = [single, single | {"accumulate": 1}, single | {"accumulate": 1, "width": 2}]
    commands.append(commands[-1] | {"window": 1, "out_width": 2, "out_height": 1})
    commands.append(commands[0] | {"accumulate": 1})
    vectors, cycles = run(commands, stalls=0.3, seed=seed)
    visited = {}
    for vector, cycle in zip(vectors, cycles, strict=True):
        if not vector["output"]:
            continue
        if vector["add"]:
            assert cycle - visited.get(vector["entry"], -99) >= ACC_UPDATE_LATENCY
        visited[vector["entry"]] = cycle


@pytest.mark.parametrize("idle", [1, 2, 7])
def test_idle_inputs_are_ignored(idle):
    """Instructions are walked as defined after any number of idle cycles."""
    dut, seen = Walk(CONFIG), []
    short = PLAIN | {"accumulate": 1, "width": 1, "height": 1, "oc_blocks": 1}
    commands = [short, PLAIN | {"accumulate": 1, "kernel_rows": 1}, short, PLAIN]
    wanted = [vector for command in commands for vector in expected_vectors(command)]

    async def feed(ctx):
        for command in commands:
            ctx.set(dut.i.payload, command)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)
            await ctx.tick()
            await ctx.tick().until(~dut.active)
            for _cycle in range(idle):
                await ctx.tick()

    async def collect(ctx):
        ctx.set(dut.room, 1)
        while len(seen) < len(wanted):
            _clk, _rst, valid, active, vector = await ctx.tick().sample(
                dut.valid, dut.active, dut.vector
            )
            if valid:
                assert active
                seen.append(observed(vector))

    simulate(dut, feed, collect, cycles=1500)
    assert seen == wanted


def test_short_steps_take_the_update_latency():
    single = PLAIN | {"width": 1, "height": 1}
    _vectors, cycles = run([single])
    gaps = {after - before for before, after in itertools.pairwise(cycles)}
    assert gaps == {ACC_UPDATE_LATENCY}


def test_windows_without_bubbles():
    """A step takes `width * height` cycles, outputs or not, and the next one follows at once."""
    commands = [SLIDING, PLAIN, SLIDING | {"out_x_skip": 1, "out_y_skip": 1}, SLIDING]
    vectors, cycles = run(commands)
    assert vectors == [item for command in commands for item in expected_vectors(command)]
    assert sum(vector["output"] for vector in vectors[: len(expected_vectors(SLIDING))]) == 6 * 45
    assert cycles == list(range(cycles[0], cycles[0] + len(vectors)))


def test_lines_are_of_three_vectors_or_more():
    commands = [SLIDING | {"line": line} for line in range(5)]
    vectors, _cycles = run(commands)
    assert vectors == [item for command in commands for item in expected_vectors(command)]


@pytest.mark.parametrize("row", [0, 1, 1023, 1024, 2047, 2048, 4092])
def test_every_bit_of_rows_and_addresses(row):
    """Addresses are right up to the largest row of an EXEC, with a pitch that uses all 20 bits."""
    command = PLAIN | {
        **{"input_rows": 4095, "first_row": row, "input_pitch": 2**20 - 3, "first_byte": 1},
        **{"input_addr": 2**24 - 5, "kernel_rows": 1, "kernel_cols": 1, "oc_blocks": 1},
        **{"acc_addr": 2**15 - 7, "input_row_bytes": 2**16 - 1, "timestamp": 63},
    }
    vectors, _cycles = run([command], config=LARGEST)
    assert vectors == expected_vectors(command)


@pytest.mark.parametrize("step", ["x_step", "kernel_col_step", "oc_step", "y_step"])
def test_positions_beyond_the_input_do_not_wrap(step):
    """Positions stay beyond the input even if steps add up to many times their range."""
    count = {"x_step": "width", "kernel_col_step": "kernel_cols", "oc_step": "oc_blocks"}
    command = PLAIN | {
        **{"width": 1, "height": 1, "kernel_rows": 1, "kernel_cols": 1, "oc_blocks": 1},
        **{step: 2**15 - 1 if step in count else 255, count.get(step, "height"): 200},
        **{"blocks": 1, "first_row": 0},
    }
    vectors, _cycles = run([command])
    assert vectors == expected_vectors(command)
    assert [any(vector["valid"]) for vector in vectors] == [True] + [False] * 199


#: With blocks of 2 x 2 positions, and modes of integers.
MODES = Config(
    rows=12,
    columns=8,
    broadcast_group=4,
    weight_rows=4,
    lanes=8,
    acc_bytes=8192,
    mac_modes=("i8xi8", "i8xi4", "i4xi4", "i16xi8"),
)
FLOATS = dataclasses.replace(MODES, mac_modes=("i8xi8", "bf16", "fp8_e5m2"), float_rows=2)


def blocks_of(command, config):
    """Return whether each vector is a block, and if so whether it lies in its row."""
    found = []
    for _step in range(command["kernel_rows"] * command["oc_blocks"]):
        for y in range(command["height"]):
            for x in range(command["width"]):
                byte = command["first_byte"] + x * command["x_step"]
                row = command["first_row"] + y * command["y_step"]
                row += _step % command["kernel_rows"] * command["kernel_row_step"]
                inside = 0 <= byte <= command["input_row_bytes"] - config.paired_bytes
                found.append((1, int(inside and 0 <= row < command["input_rows"])))
    return found


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("first_byte", [-33, -1, 0, 1])
def test_blocks_are_whole_or_padding(first_byte):
    """No byte of a block is masked: if it does not lie in its row entirely, it is padding."""
    size = MODES.paired_bytes
    block = SLIDING | {
        **{"paired": 1, "x_step": size // 2, "first_byte": first_byte, "oc_step": 0},
        **{"input_row_bytes": 4 * size + 1, "input_pitch": 200, "oc_blocks": 1},
    }
    dut, seen = Walk(MODES), []
    plain = PLAIN | {"paired": 1}
    single = expected_vectors(plain, MODES.rows)
    wanted = [*blocks_of(block, MODES), *[(0, vector) for vector in single]]

    async def feed(ctx):
        for command in (block, plain):
            ctx.set(dut.i.payload, command)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def collect(ctx):
        ctx.set(dut.room, 1)
        while len(seen) < len(wanted):
            (vector,) = await ctx.tick().sample(dut.vector).until(dut.valid)
            assert not vector.paired or vector.high == 0
            shown = vector.row_valid if vector.paired else observed(vector, MODES.rows)
            seen.append((vector.paired, shown))

    simulate(dut, feed, collect, cycles=3000)
    assert seen == wanted
    assert {inside for paired, inside in wanted if paired} == {0, 1}


@pytest.mark.parametrize(
    ("config", "flags"),
    [
        (
            MODES,
            {
                "i8xi8": {"narrow": 0, "nibbles": 0, "words": 0},
                "i8xi4": {"narrow": 1, "nibbles": 0, "words": 0},
                "i4xi4": {"narrow": 1, "nibbles": 1, "words": 0},
                "i16xi8": {"narrow": 0, "nibbles": 0, "words": 1},
            },
        ),
        (
            FLOATS,
            {
                "i8xi8": {"floating": 0},
                "bf16": {"floating": 1, "format": 0},
                "fp8_e5m2": {"floating": 1, "format": 1},
            },
        ),
    ],
    ids=["integers", "floats"],
)
def test_flags_follow_the_mode(config, flags):
    """Each vector has the flags of its own instruction, also between two instructions."""
    dut, seen, wanted = Walk(config), [], []
    order = [*flags, *reversed(flags)]
    small = PLAIN | {"kernel_rows": 1, "oc_blocks": 1, "kernel_cols": 1}

    async def feed(ctx):
        for name in order:
            ctx.set(dut.i.payload, small | {"mode": MAC_MODES.index(name)})
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def collect(ctx):
        ctx.set(dut.room, 1)
        for name in order:
            for _vector in range(12):
                (vector,) = await ctx.tick().sample(dut.vector).until(dut.valid)
                seen.append({flag: vector.flags[flag] for flag in flags[name]})
                wanted.append(flags[name])

    simulate(dut, feed, collect, cycles=1000)
    assert seen == wanted


def test_no_windows_where_there_are_none():
    vectors, _cycles = run([PLAIN], config=WITHOUT_WINDOWS)
    assert vectors == expected_vectors(PLAIN)


def test_shapes_of_windows_go_with_their_vectors():
    """Each vector has the window shape of its instruction; a block of 2 x 2 has shape 0."""
    shapes, seen, dut = [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (2, 0)], [], Walk(WIDE)
    small = SLIDING | {"kernel_rows": 1, "oc_blocks": 1}

    async def feed(ctx):
        for shape, paired in shapes:
            ctx.set(dut.i.payload, small | {"window_shape": shape, "paired": paired})
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def collect(ctx):
        ctx.set(dut.room, 1)
        for _vector in range(len(shapes) * 60):
            (vector,) = await ctx.tick().sample(dut.vector).until(dut.valid)
            seen.append(vector.window_shape)

    simulate(dut, feed, collect, cycles=1000)
    assert seen == [shape * (not paired) for shape, paired in shapes for _vector in range(60)]


@pytest.mark.parametrize("command", [PLAIN, SLIDING], ids=["dense", "sliding"])
def test_reset_midway(command):
    vectors, _cycles = run([command], reset_at=40)
    assert vectors == expected_vectors(command)
