"""Execute: sums of whole instructions, their cycles, causes of idle cycles, stalls and reset."""

import dataclasses
import random

import numpy as np
import pytest

from matloom.arch.config import Config
from matloom.arch.csr import EXEC_CAUSES
from matloom.arch.isa import UNITS, Opcode
from matloom_rtl.array.execute import Execute
from matloom_rtl.ports import ACC_UPDATE_LATENCY, SPAD_READ_LATENCY, body_layout
from matloom_rtl.testing import cached_unit, simulate, with_reset

CONFIG = Config(
    rows=8,
    columns=4,
    broadcast_group=2,
    weight_rows=2,
    lanes=4,
    acc_bytes=16384,
    spad_bytes=4096,
    spad_banks=1,
)
#: Windows of one line, two and three.
SHAPES = {
    "4x4": dataclasses.replace(CONFIG, rows=4),
    "8x4": CONFIG,
    "16x8": dataclasses.replace(CONFIG, rows=16, columns=8, broadcast_group=4, acc_bytes=16384),
    "blocks": dataclasses.replace(
        CONFIG, rows=12, columns=8, broadcast_group=4, weight_rows=4, acc_bytes=16384
    ),
    "wide": dataclasses.replace(
        CONFIG, rows=16, columns=8, weight_rows=4, acc_bytes=16384, windows=2
    ),
}
CAUSES = [name for name, _doc in EXEC_CAUSES]
MODES = ("i8xi8", "i8xi4", "i4xi4", "i16xi8")
NARROW = dataclasses.replace(CONFIG, mac_modes=MODES, acc_bytes=16384)

PLAIN = {
    "timestamp": 5,
    "input_addr": 1000,
    "input_pitch": 40,
    "input_rows": 6,
    "input_row_bytes": 37,
    "first_row": -1,
    "first_byte": -6,
    "pad_value": -3,
    "width": 4,
    "height": 3,
    "x_step": 6,
    "y_step": 2,
    "kernel_rows": 3,
    "kernel_row_step": 1,
    "kernel_cols": 1,
    "blocks": 2,
    "oc_blocks": 2,
    "oc_step": 0,
    "weight_addr": 32,
    "acc_addr": 7,
}

#: A kernel of three rows in two steps, the second of which has one row of weights too many.
SLIDING = PLAIN | {
    "window": 1,
    "width": 7,
    "height": 6,
    "y_step": 1,
    "kernel_rows": 2,
    "kernel_row_step": 2,
    "blocks": 1,
    "oc_step": 3,
    "line": 7,
    "first_output": 8,
    "out_width": 6,
    "out_height": 5,
}


#: Two blocks of channels of an image of 5 x 6 blocks; the last line and column are padding.
BLOCKS = PLAIN | {
    "window": 1,
    "paired": 1,
    "input_addr": 1024,
    "input_pitch": 160,
    "input_rows": 5,
    "input_row_bytes": 160,
    "first_row": 0,
    "first_byte": 0,
    "width": 6,
    "height": 6,
    "x_step": 32,
    "y_step": 1,
    "kernel_rows": 1,
    "blocks": 1,
    "oc_step": 800,
    "line": 6,
    "first_output": 7,
    "out_width": 5,
    "out_height": 5,
}


def expected_sums(spad, command, entries=None, config=CONFIG):
    """Return the sums by entry as defined: over all steps, added to those in `entries`."""
    c = {name: 0 for name, _ in body_layout(Opcode.EXEC, config)} | command
    rows, columns = config.rows, config.columns
    sums, tile, block_entry = {}, 0, c["acc_addr"]
    for block_oc in range(c["oc_blocks"]):
        for kernel_row in range(c["kernel_rows"]):
            for kernel_col in range(c["kernel_cols"]):
                for block in range(c["blocks"]):
                    start = c["weight_addr"] + tile * rows * columns
                    weights = spad[start : start + rows * columns].reshape(rows, columns)
                    tile += 0 if c["weights_fixed"] else 1
                    vectors = []
                    for y in range(c["height"]):
                        for x in range(c["width"]):
                            row = c["first_row"] + y * c["y_step"]
                            row += kernel_row * c["kernel_row_step"]
                            byte = c["first_byte"] + x * c["x_step"] + block * rows
                            byte += kernel_col * c["kernel_col_step"] + block_oc * c["oc_step"]
                            size = 4 * columns if is_paired(c) else rows
                            inside = [
                                0 <= row < c["input_rows"] and 0 <= byte + i < c["input_row_bytes"]
                                for i in range(size)
                            ]
                            if is_paired(c):
                                inside = [all(inside)] * size
                            start = c["input_addr"] + row * c["input_pitch"] + byte
                            vectors.append(
                                [
                                    spad[start + i] if within else c["pad_value"]
                                    for i, within in enumerate(inside)
                                ]
                            )
                    first = kernel_row == kernel_col == block == 0
                    before = sums if not first else (entries if c["accumulate"] else {})
                    entry = block_entry
                    for number in range(len(vectors)):
                        if not c["window"] or is_output(c, number):
                            operands = operands_of(c, vectors, number, config)
                            factors = weights.astype(np.int64)
                            if c.get("zero_points") and not c["window"]:
                                operands = operands - c["pad_value"]
                                factors = factors - (c["line"] ^ 128) + 128
                            made = products(c["mode"], operands, factors)
                            for place, product in zip(places(c, entry, config), made, strict=True):
                                sums[place] = product + before.get(place, 0)
                            entry += 1
        block_entry = entry
    return sums


def products(mode, operands, weights):
    """Return the sums of products: one per column; in modes 1 and 2 of low and high nibbles.

    Bytes of mode 3 alternate between low and high ones.
    """
    if mode == 3:
        operands = operands.copy()
        operands[::2] %= 256
        operands[1::2] *= 256
    if mode in (0, 3):
        return ((operands * weights).sum(axis=0),)
    if mode == 2:
        operands = (operands % 16 + 8) % 16 - 8
    low = (weights % 16 + 8) % 16 - 8
    return (operands * low).sum(axis=0), (operands * (weights // 16)).sum(axis=0)


def places(command, entry, config):
    """Return the entries that an output updates: one, or a pair in modes 1 and 2."""
    if command["mode"] in (0, 3):
        return (entry,)
    first = entry if entry < config.pair_distance else entry + config.pair_distance
    return first, first + config.pair_distance


def expected_all(spad, commands, config=CONFIG):
    entries = {}
    for command in commands:
        entries |= expected_sums(spad, command, entries, config)
    return entries


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


def is_paired(command):
    return command["window"] and command.get("paired")


def operands_of_blocks(command, vectors, number, config):
    """Return (rows, columns) for a window that ends in the first position of a block."""
    columns, line = config.columns, max(command["line"], 3)
    operands = np.full((config.rows, columns), command["pad_value"], np.int64)
    for row in range(9):
        tap_y, tap_x = divmod(row, 3)
        index = number - (line if tap_y < 2 else 0) - (1 if tap_x < 2 else 0)
        if index >= 0:
            operands[row] = np.reshape(vectors[index], (2, 2, columns))[tap_x % 2, tap_y % 2]
    return operands


def operands_of(command, vectors, number, config):
    """Return the operands (rows, columns) of the cells for a vector of a step."""
    if is_paired(command):
        return operands_of_blocks(command, vectors, number, config)
    operands = np.repeat(np.array(vectors[number], np.int64)[:, np.newaxis], config.columns, axis=1)
    line = max(command["line"], 3)
    lines = {0: [3] * config.window_lines, 1: [15], 2: [5, 5, 5], 3: [8, 7]}
    lines = lines[command.get("window_shape", 0)] if command["window"] else []
    taps = [(y, x) for y, count in enumerate(lines) for x in range(count)]
    for row, (tap_y, tap_x) in enumerate(taps):
        index = number - (len(lines) - 1 - tap_y) * line - (lines[tap_y] - 1 - tap_x)
        operands[row] = vectors[index][: config.columns] if index >= 0 else command["pad_value"]
    return operands


def run(commands, *, config=CONFIG, **options):
    """Run commands; return sums by entry, timestamps in order of completion, and cycles by cause.

    Options
    -------
    refuse, unmet:
        Probability per cycle that a port grants nothing, and that a dependency is not met.
    late:
        Cycles before the first command: the unit that each waits for, and for LOAD, whether it
        waits for constants.
    granted:
        First address at which reads of a bank are granted; by default any.
    """
    refuse, unmet, late = (options.get(name, 0) for name in ("refuse", "unmet", "late"))
    seed, reset_at = options.get("seed", 0), options.get("reset_at")
    granted_range = options.get("granted", range(2**config.spad_addr_bits))
    generator = random.Random(seed)
    spad = np.random.default_rng(seed).integers(-128, 128, config.spad_bytes, np.int8)
    dut = cached_unit(Execute, config)
    wrapped, reset = with_reset(dut)
    entries, timestamps, causes = {}, [], dict.fromkeys(CAUSES, 0)
    phase = {"started": reset_at is None}

    async def feed(ctx):
        ctx.set(dut.met, 15)
        if reset_at is not None:
            ctx.set(dut.unit.command.payload, commands[0])
            ctx.set(dut.unit.command.valid, 1)
            await ctx.tick().repeat(reset_at)
            ctx.set(dut.unit.command.valid, 0)
            ctx.set(reset, 1)
            await ctx.tick().repeat(2)
            ctx.set(reset, 0)
            # Vectors already granted drain unseen: the array resets no data, only its valids.
            await ctx.tick().repeat(20)
            phase["started"] = True
        for command in commands:
            ctx.set(dut.unit.command.payload, command)
            ctx.set(dut.unit.command.valid, 1)
            for unit, constants in (late or ()) if command is commands[0] else ():
                ctx.set(dut.met, 15 - (1 << UNITS.index(unit)))
                ctx.set(dut.constants, constants)
                await ctx.tick()
            while True:
                ctx.set(dut.met, 15 if generator.random() >= unmet else generator.randint(0, 15))
                _c, _r, ready = await ctx.tick().sample(dut.unit.command.ready)
                if ready:
                    break
            ctx.set(dut.unit.command.valid, 0)
            ctx.set(dut.met, 15)

    def word(port, address):
        width = len(port.data) // 8
        picked = np.take(spad, range(address, address + width), mode="wrap")
        return int.from_bytes(picked.tobytes(), "little")

    async def memory(ctx):
        ports = (dut.input_read, dut.weight_read)
        pipelines = [[0] * (SPAD_READ_LATENCY - 1) for _ in ports]
        announced = []
        while len(timestamps) < len(commands):
            for port in ports:
                may = not ctx.get(port.bank_select) or ctx.get(port.address) in granted_range
                ctx.set(port.ready, generator.random() >= refuse and may)
            samples = await ctx.tick().sample(
                dut.input_read.valid,
                dut.input_read.ready,
                dut.input_read.address,
                dut.weight_read.valid,
                dut.weight_read.ready,
                dut.weight_read.address,
                dut.sum_valid,
                dut.sum_entry,
                dut.sum_add,
                dut.sums,
                dut.unit.done,
                dut.unit.done_mark,
                dut.cause,
                reset,
                *((dut.sum_narrow, dut.seconds) if config.has_narrow else ()),
            )
            in_valid, in_ready, in_address, w_valid, w_ready, w_address = samples[2:8]
            sum_valid, entry, add, sums, done, timestamp, cause, resetting = samples[8:16]
            narrow, seconds = samples[16:] or (0, 0)
            granted = ((in_valid and in_ready, in_address), (w_valid and w_ready, w_address))
            for port, pipeline, (valid, address) in zip(ports, pipelines, granted, strict=True):
                pipeline.append(word(port, address) if valid else 0)
                ctx.set(port.data, pipeline.pop(0))
            if not phase["started"] or resetting:
                continue
            assert bin(cause).count("1") == 1, "each cycle has exactly one cause"
            causes[CAUSES[cause.bit_length() - 1]] += 1
            if announced:
                made, added = announced[0]
                for place, each in zip(made, (sums, seconds), strict=False):
                    vector = np.frombuffer(each.to_bytes(4 * config.columns, "little"), np.int32)
                    entries[place] = vector.astype(np.int64) + (entries[place] if added else 0)
            announced[:] = [(places({"mode": narrow}, entry, config), add)] if sum_valid else []
            if done:
                timestamps.append(timestamp)

    simulate(wrapped, feed, memory, cycles=30000)
    return spad, entries, timestamps, causes


def check(entries, wanted):
    assert entries.keys() == wanted.keys()
    for entry, sums in wanted.items():
        assert np.array_equal(entries[entry], sums), f"entry {entry}"


def vectors_of(command):
    count = 1
    for name in ("oc_blocks", "kernel_rows", "kernel_cols", "blocks", "height", "width"):
        count *= command[name]
    return count


def test_sums_and_no_idle_cycle_between_tiles():
    second = PLAIN | {"timestamp": 6, "acc_addr": 100, "input_addr": 1200}
    spad, entries, timestamps, causes = run([PLAIN, second])
    check(entries, expected_sums(spad, PLAIN) | expected_sums(spad, second))
    assert timestamps == [5, 6]
    assert causes["exec_stream"] == 2 * vectors_of(PLAIN)
    # Steps of 12 vectors hide the 4 cycles of a tile's weights; nothing waits once running.
    assert causes["exec_wait_weights"] <= 10
    assert causes["exec_wait_bank"] == 0


def test_short_steps_wait_for_weights_only():
    """A dense layer at one position takes `tile_load_cycles` for each tile."""
    dense = PLAIN | {"width": 1, "height": 1, "kernel_rows": 1, "blocks": 8, "first_row": 0}
    dense |= {"first_byte": 0, "input_row_bytes": 64, "input_rows": 1}
    spad, entries, _timestamps, causes = run([dense])
    check(entries, expected_sums(spad, dense))
    tiles = 16
    assert causes["exec_stream"] == tiles
    waits = ("exec_wait_weights", "exec_wait_sums", "exec_setup")
    assert sum(causes[name] for name in waits) < tiles * 4 + 16


def test_cycles_between_updates_are_not_setup():
    """In steps of one vector, all cycles but the first count as waiting for sums, not as setup."""
    short = PLAIN | {"width": 1, "height": 1, "weights_fixed": 1}
    again = short | {"accumulate": 1, "oc_blocks": 1}
    spad, entries, _timestamps, causes = run([short, again])
    check(entries, expected_all(spad, [short, again]))
    steps = vectors_of(short) + vectors_of(again)
    # The last step waits for its full time, and what accumulates for that of the one before.
    assert causes["exec_wait_sums"] == 3 * steps + ACC_UPDATE_LATENCY
    _spad, _entries, _timestamps, causes = run([PLAIN])
    assert causes["exec_wait_sums"] == 0


def test_many_short_instructions_are_in_flight_at_once():
    """Instructions of one step complete in order, each with its own timestamp."""
    step = PLAIN | {"width": 1, "height": 1, "kernel_rows": 1, "kernel_cols": 1, "blocks": 1}
    step |= {"oc_blocks": 1, "weights_fixed": 1}
    commands = [step | {"acc_addr": number, "timestamp": number} for number in range(40)]
    spad, entries, timestamps, _causes = run(commands)
    check(entries, expected_all(spad, commands))
    assert timestamps == list(range(40))


def test_waits_are_named_after_their_unit():
    late = [(Opcode.LOAD, 0)] * 7 + [(Opcode.LOAD, 1)] * 5 + [(Opcode.POST, 0)] * 3
    late += [(Opcode.STORE, 1)] * 4 + [(Opcode.EXEC, 0)] * 6
    spad, entries, _timestamps, causes = run([PLAIN], late=late)
    check(entries, expected_sums(spad, PLAIN))
    waits = ("input", "constants", "post", "store", "self")
    assert [causes[f"exec_wait_{name}"] for name in waits] == [7, 5, 3, 4, 6]


@pytest.mark.slow
def test_modes_follow_each_other_without_a_gap():
    """Modes alternate without idle cycles; a narrow mode takes two output blocks per vector."""
    commands = [
        PLAIN
        | {"mode": mode, "acc_addr": address, "timestamp": timestamp, "accumulate": accumulate}
        for timestamp, (mode, address, accumulate) in enumerate(
            [
                (0, 7, 0),
                (1, 7, 0),
                (2, 100, 0),
                (1, 7, 1),
                (0, NARROW.pair_distance + 7, 1),
                (2, 40, 0),
                (3, 200, 0),
            ]
        )
    ]
    spad, entries, timestamps, causes = run(commands, config=NARROW)
    check(entries, expected_all(spad, commands, NARROW))
    assert timestamps == list(range(7))
    assert causes["exec_stream"] == 7 * vectors_of(PLAIN)
    assert causes["exec_wait_weights"] <= 10


@pytest.mark.slow
@pytest.mark.parametrize(("refuse", "unmet"), [(0.5, 0), (0.4, 0.5)])
def test_modes_with_refused_reads_and_late_dependencies(seed, refuse, unmet):
    generator = random.Random(seed)
    commands = [
        PLAIN | {"mode": generator.randint(0, 3), "acc_addr": 30 * number, "timestamp": number}
        for number in range(6)
    ]
    spad, entries, timestamps, _causes = run(
        commands, config=NARROW, refuse=refuse, unmet=unmet, seed=seed
    )
    check(entries, expected_all(spad, commands, NARROW))
    assert timestamps == list(range(6))


@pytest.mark.slow
def test_blocks_among_modes(seed):
    """Tiles of other modes load in the gaps between blocks."""
    config = dataclasses.replace(
        NARROW, rows=12, columns=8, broadcast_group=4, weight_rows=4, acc_bytes=16384, lanes=8
    )
    generator = random.Random(seed)
    commands = [
        (BLOCKS if number % 2 else PLAIN | {"mode": generator.randint(0, 3)})
        | {"acc_addr": 60 * number, "timestamp": number}
        for number in range(7)
    ]
    spad, entries, timestamps, _causes = run(commands, config=config, refuse=0.2, seed=seed)
    check(entries, expected_all(spad, commands, config))
    assert timestamps == list(range(7))


@pytest.mark.parametrize("shape", ["8x4", "blocks"])
def test_zero_points_are_subtracted(shape):
    """Zero points apply to padding and to extreme bytes, but not to commands with windows."""
    config = dataclasses.replace(SHAPES[shape], zero_points=1)
    given = [(-128, 127), (127, 128), (-3, 0), (0, 200), (5, 3)]
    commands = [
        PLAIN | {"pad_value": zero, "line": line, "acc_addr": 40 * number, "zero_points": 1}
        for number, (zero, line) in enumerate(given)
    ]
    window = BLOCKS if config.has_paired_windows else SLIDING
    commands.insert(1, window | {"zero_points": 1, "acc_addr": 300})
    commands.insert(3, PLAIN | {"line": 77, "acc_addr": 450})
    spad, entries, _timestamps, causes = run(commands, config=config, refuse=0.2)
    check(entries, expected_all(spad, commands, config))
    assert causes["exec_stream"] == sum(vectors_of(command) for command in commands)


def test_one_fixed_tile():
    pool = PLAIN | {"weights_fixed": 1, "blocks": 1, "oc_step": 4}
    spad, entries, _timestamps, _causes = run([pool])
    check(entries, expected_sums(spad, pool))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("refuse", "unmet"), [(0.5, 0), (0, 0.9), (0.4, 0.5)])
def test_refused_reads_and_late_dependencies(seed, refuse, unmet):
    commands = [PLAIN | {"acc_addr": 40 * i, "timestamp": i} for i in range(3)]
    spad, entries, timestamps, _causes = run(commands, refuse=refuse, unmet=unmet, seed=seed)
    wanted = {}
    for command in commands:
        wanted |= expected_sums(spad, command)
    check(entries, wanted)
    assert timestamps == [0, 1, 2]


def test_windows_take_a_cycle_a_vector():
    commands = [SLIDING, PLAIN | {"acc_addr": 100}, SLIDING | {"acc_addr": 200, "timestamp": 6}]
    spad, entries, timestamps, causes = run(commands)
    check(entries, expected_all(spad, commands))
    assert timestamps == [5, 5, 6]
    assert causes["exec_stream"] == sum(vectors_of(command) for command in commands)
    assert causes["exec_wait_weights"] <= 10


def test_blocks_take_a_cycle_each_and_a_tile_waits_for_them():
    """Tiles load between steps, through the port that the blocks use."""
    commands = [BLOCKS, PLAIN | {"acc_addr": 100}, BLOCKS | {"acc_addr": 200, "timestamp": 6}]
    config = SHAPES["blocks"]
    spad, entries, timestamps, causes = run(commands, config=config)
    check(entries, expected_all(spad, commands, config))
    assert len(expected_sums(spad, BLOCKS, config=config)) == 2 * 5 * 5
    assert timestamps == [5, 5, 6]
    assert causes["exec_stream"] == sum(vectors_of(command) for command in commands)
    # The first tile of all, the second one of each instruction of blocks, and that of PLAIN.
    assert causes["exec_wait_weights"] <= 10 + 3 * config.tile_load_cycles
    assert causes["exec_wait_bank"] == 0


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["4x4", "8x4", "16x8", "blocks", "wide"])
@pytest.mark.parametrize("refuse", [0, 0.4])
def test_windows_at_random(seed, name, refuse):
    """Random dense and sliding instructions give the defined sums, also when they accumulate."""
    generator = random.Random(seed + int(10 * refuse))
    config = SHAPES[name]
    commands = []
    for timestamp in range(8):
        command = random_window(generator) if generator.random() < 0.75 else PLAIN
        if config.has_paired_windows and generator.random() < 0.7:
            # Irrelevant in PLAIN.
            command = command | {"paired": 1, "x_step": generator.choice((32, 32, 64))}
            command |= {"input_row_bytes": 160, "first_byte": generator.choice((0, -32, 32))}
            command |= {"input_addr": 992, "input_pitch": 160, "oc_step": 32}
        if config.has_wide_windows:
            command = command | {"window_shape": generator.randrange(4)}
        commands.append(command | {"timestamp": timestamp, "acc_addr": 150 * (timestamp // 2)})
        if timestamp % 2 and generator.random() < 0.5:
            commands[-1] = commands[-2] | {
                "timestamp": timestamp,
                "accumulate": 1,
                "first_byte": 64,
            }
    spad, entries, timestamps, causes = run(commands, config=config, refuse=refuse, seed=seed)
    check(entries, expected_all(spad, commands, config))
    assert timestamps == list(range(8))
    assert causes["exec_stream"] == sum(vectors_of(command) for command in commands)


def random_window(generator):
    width, height = generator.randint(1, 9), generator.randint(1, 6)
    line = generator.choice((width, width, width + 1, generator.randint(0, 255)))
    return SLIDING | {
        "width": width,
        "height": height,
        "x_step": generator.choice((0, 3, 4)),
        "oc_blocks": generator.randint(1, 2),
        "kernel_rows": generator.randint(1, 3),
        "weights_fixed": generator.randint(0, 1),
        "line": line,
        "first_output": generator.choice((0, 2, line + 1, 2 * line + 2, 1023)),
        "out_width": generator.choice((width, max(width - 1, 0), 0, 4095)),
        "out_height": generator.choice((0, 1, 2, 5, 4095)),
        "out_x_skip": generator.choice((0, 0, 1, 3)),
        "out_y_skip": generator.choice((0, 0, 1, 3)),
    }


def test_an_instruction_without_outputs_completes():
    _spad, entries, timestamps, _causes = run([SLIDING | {"out_width": 0}])
    assert (entries, timestamps) == ({}, [5])


@pytest.mark.parametrize(
    ("command", "config"),
    [(PLAIN, CONFIG), (SLIDING, CONFIG), (BLOCKS, SHAPES["blocks"])],
    ids=["dense", "sliding", "blocks"],
)
def test_reset_midway(command, config):
    spad, entries, timestamps, _causes = run([command], reset_at=60, config=config)
    check(entries, expected_sums(spad, command, config=config))
    assert timestamps == [5]


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("outside", ["above", "below", "no rows"])
@pytest.mark.parametrize(
    ("command", "config"),
    [(PLAIN, CONFIG), (SLIDING, CONFIG), (BLOCKS, SHAPES["blocks"])],
    ids=["dense", "sliding", "blocks"],
)
def test_padding_asks_for_no_bank(command, config, outside):
    """Rows of padding are right, and proceed even though no bank grants reads.

    The weights are read before, while banks grant.
    """
    rows = {"above": {"first_row": -40}, "below": {"first_row": 20}, "no rows": {"input_rows": 0}}
    padded = command | rows[outside]
    weights = range(command["input_addr"] - 100)
    spad, entries, timestamps, causes = run([padded], config=config, granted=weights)
    check(entries, expected_sums(spad, padded, config=config))
    assert timestamps == [5]
    assert causes["exec_stream"] == vectors_of(padded)
    assert causes["exec_wait_bank"] == 0


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["8x4", "blocks"])
def test_progress_is_a_read_of_the_cycle_before(seed, name):
    """Without grants there is no progress, so that the watchdog can notice a stuck scratchpad."""
    config = SHAPES[name]
    command, generator = (BLOCKS if name == "blocks" else SLIDING), random.Random(seed)
    dut, moved, told = Execute(config), [], []

    async def main(ctx):
        ctx.set(dut.met, 15)
        ctx.set(dut.unit.command.payload, command)
        ctx.set(dut.unit.command.valid, 1)
        for cycle in range(150):
            # Nothing is granted for a while in the middle.
            for port in (dut.input_read, dut.weight_read):
                ctx.set(port.ready, generator.random() < 0.5 and not 60 <= cycle < 100)
            _clk, _rst, taken, rows, weights, progress = await ctx.tick().sample(
                dut.unit.command.ready,
                dut.input_read.valid & dut.input_read.ready,
                dut.weight_read.valid & dut.weight_read.ready,
                dut.unit.progress,
            )
            if taken:
                ctx.set(dut.unit.command.valid, 0)
            moved.append(rows | weights)
            told.append(progress)

    simulate(dut, main, cycles=200)
    assert told[1:] == moved[:-1]
    assert not any(told[61:100])
    assert sum(told[:60]) > 10
    assert sum(told[100:]) > 10


@pytest.mark.parametrize("heeds", [0, 1])
def test_weights_wait_for_post_if_the_instruction_asks(heeds):
    """Weights wait for LOAD alone, or for LOAD and POST if `weights_wait_post` is set."""
    dut = Execute(CONFIG)
    asked = {}

    async def main(ctx):
        for met in (0, 1 << UNITS.index(Opcode.POST), 1 << UNITS.index(Opcode.LOAD), 15):
            ctx.set(dut.met, met)
            ctx.set(dut.unit.command.payload, PLAIN | {"weights_wait_post": heeds})
            ctx.set(dut.unit.command.valid, 1)
            for _cycle in range(20):
                if ctx.get(dut.weight_read.valid):
                    asked.setdefault(met, 0)
                    asked[met] += 1
                await ctx.tick()

    simulate(dut, main, cycles=200)
    load = 1 << UNITS.index(Opcode.LOAD)
    assert set(asked) == ({15} if heeds else {load, 15})
