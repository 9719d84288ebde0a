"""The functional model: instructions as nested loops over exact integers; order of faults."""

import dataclasses
import random

import numpy as np
import pytest

from matloom.arch.config import PRESETS, Config
from matloom.arch.csr import Fault
from matloom.arch.instruction import Instruction, extent_end, pack, unpack
from matloom.arch.isa import FORMATS, AddressSpace, Destination, Opcode, Region, Source
from matloom.arch.numerics import Rounding
from matloom.device.model.engine import Engine, EngineFaultError
from matloom.verification.random_programs import random_stream

MODES = ("i8xi8", "i8xi4", "i4xi4", "i16xi8")
CONFIG = dataclasses.replace(PRESETS["nano"], mac_modes=MODES, pooling=1)
END = pack(Instruction(Opcode.END))
WIDE = Config(columns=8, broadcast_group=8, lanes=4, weight_rows=2, acc_bytes=16384, windows=2)


def engine(seed=0, config=CONFIG):
    """Return an engine whose memories hold noise."""
    generator = np.random.default_rng(seed)
    made = Engine(config, {region: np.zeros(6000, np.uint8) for region in Region})
    for memory in (made.spad, *made.regions.values()):
        memory[:] = generator.integers(0, 256, memory.size)
    made.accumulators[:] = generator.integers(-(2**31), 2**31, made.accumulators.shape)
    return made


def int8(byte):
    return byte - 256 if byte > 127 else byte


def wrap(x):
    return (x + 2**31) % 2**32 - 2**31


def int4(nibble):
    return nibble - 16 if nibble > 7 else nibble


def entries_of(f, number, config):
    """Return the entries of an entry number: one, or the two of a pair."""
    if f.mode not in (1, 2):
        return (number,)
    return pair_of(number, config)


def pair_of(number, config):
    """Return the entries of a pair, one in each half of a bank."""
    quarter = config.acc_entries // 4
    bank, place = divmod(number, quarter)
    return 2 * bank * quarter + place, (2 * bank + 1) * quarter + place


def factors_of(f, value, byte, row):
    """Return an activation with the weight of its row, and the weights in a byte."""
    if f.mode == 3:
        return value * 256 if row % 2 else value & 255, (int8(byte),)
    if not f.mode:
        return value, (int8(byte),)
    return int4(value & 15) if f.mode == 2 else value, (int4(byte & 15), int4(byte >> 4))


def naive_exec(f, spad, accumulators):
    """Follow the loops as the decision record orders them, outermost first."""
    rows, columns, tile = CONFIG.rows, CONFIG.columns, 0
    for block in range(f.oc_blocks):
        first = True
        for kernel_row in range(f.kernel_rows):
            for kernel_col in range(f.kernel_cols):
                for k in range(f.blocks):
                    at = f.weight_addr + (0 if f.weights_fixed else tile * rows * columns)
                    tile += 1
                    for y in range(f.height):
                        for x in range(f.width):
                            row = f.first_row + y * f.y_step + kernel_row * f.kernel_row_step
                            byte = (
                                f.first_byte
                                + block * f.oc_step
                                + x * f.x_step
                                + kernel_col * f.kernel_col_step
                                + k * rows
                            )
                            number = f.acc_addr + (block * f.height + y) * f.width + x
                            entries = entries_of(f, number, CONFIG)
                            for column in range(columns):
                                totals = [0] * len(entries)
                                for r in range(rows):
                                    value = f.pad_value
                                    inside = 0 <= byte + r < f.input_row_bytes
                                    if inside and 0 <= row < f.input_rows:
                                        offset = row * f.input_pitch + byte + r
                                        value = int8(spad[f.input_addr + offset])
                                    byte_at = at + r * columns + column
                                    value, weights = factors_of(f, value, spad[byte_at], r)
                                    for half, weight in enumerate(weights):
                                        totals[half] += value * weight
                                for entry, total in zip(entries, totals, strict=True):
                                    old, new = accumulators[entry][column], total
                                    if not first or f.accumulate:
                                        new = larger(old, total) if f.maximum else wrap(old + total)
                                    accumulators[entry][column] = new
                    first = False


def larger(old, total):
    """Return the larger by the signed low 17 bits; the old one if they are equal."""
    return max(old, total, key=lambda number: (number + 2**16) % 2**17 - 2**16)


def streamed(f, spad, config, block, kernel_row, kernel_col, k):
    """Return the vectors of a step, with padding applied."""
    vectors = []
    for y in range(f.height):
        for x in range(f.width):
            row = f.first_row + y * f.y_step + kernel_row * f.kernel_row_step
            byte = f.first_byte + block * f.oc_step + x * f.x_step
            byte += kernel_col * f.kernel_col_step + k * config.rows
            size = 4 * config.columns if f.paired else config.rows
            inside = [
                0 <= row < f.input_rows and 0 <= byte + r < f.input_row_bytes for r in range(size)
            ]
            if f.paired and not all(inside):
                inside = [False] * size
            at = f.input_addr + row * f.input_pitch + byte
            vectors.append(
                [int8(spad[at + r]) if ok else f.pad_value for r, ok in enumerate(inside)]
            )
    return vectors


def tap_of_blocks(f, vectors, n, row, column, config):
    """Return the operand of a tap, by coordinates of 2 x 2 blocks.

    The window's last tap is position (0, 0) of block n.
    """
    tap_y, tap_x = divmod(row, 3)
    block_y, y = divmod(tap_y - 2, 2)
    block_x, x = divmod(tap_x - 2, 2)
    source = n + block_y * max(f.line, 3) + block_x
    if source < 0:
        return f.pad_value
    return vectors[source][(2 * x + y) * config.columns + column]


def tap(f, row, config):
    """Return how many lines and vectors ago the tap of a row passed, or None for a dense row."""
    if f.window_shape == 0:
        taps = 3 * config.window_lines
        return (config.window_lines - 1 - row // 3, 2 - row % 3) if row < taps else None
    if row > 14:
        return None
    if f.window_shape == 3:
        return (1, 7 - row) if row < 8 else (0, 14 - row)
    return divmod(14 - row, {1: 15, 2: 5}[f.window_shape])


def naive_window(f, spad, accumulators, config):
    """Compute a window as decision 0002 defines it, vector by vector."""
    rows, columns = config.rows, config.columns
    line, tile, block_entry = max(f.line, 3), 0, f.acc_addr
    for block in range(f.oc_blocks):
        first, entry = True, block_entry
        for step in range(f.kernel_rows * f.kernel_cols * f.blocks):
            taps, k = divmod(step, f.blocks)
            kernel_row, kernel_col = divmod(taps, f.kernel_cols)
            vectors = streamed(f, spad, config, block, kernel_row, kernel_col, k)
            at = f.weight_addr + (0 if f.weights_fixed else tile * rows * columns)
            tile += 1
            entry = block_entry
            for n in range(f.first_output, len(vectors)):
                y, x = divmod(n - f.first_output, line)
                if y % (f.out_y_skip + 1) or x % (f.out_x_skip + 1):
                    continue
                if (
                    y // (f.out_y_skip + 1) >= f.out_height
                    or x // (f.out_x_skip + 1) >= f.out_width
                ):
                    continue
                for column in range(columns):
                    total = 0
                    for r in range(rows):
                        value = f.pad_value if f.paired else vectors[n][r]
                        if f.paired and r < 9:
                            value = tap_of_blocks(f, vectors, n, r, column, config)
                        elif not f.paired and (back := tap(f, r, config)):
                            source = n - back[0] * line - back[1]
                            value = vectors[source][column] if source >= 0 else f.pad_value
                        total += value * int8(spad[at + r * columns + column])
                    old = accumulators[entry][column]
                    if not first or f.accumulate:
                        total = larger(old, total) if f.maximum else wrap(old + total)
                    accumulators[entry][column] = total
                entry += 1
            first = False
        block_entry = entry


def quotient(x, count):
    """Divide by a power of two, rounding halves away from zero."""
    magnitude = (abs(x) + count // 2) // count
    return magnitude if x >= 0 else -magnitude


def scaled(f, x, multiplier, shift):
    """Return a scaled sum by the rounding rules, in integers only."""
    x = wrap(x << (f.pre_shift + max(shift, 0)))
    right = max(-shift, 0)
    product = x * multiplier
    if f.rounding == Rounding.SINGLE:
        return (product + (1 << (30 + right))) >> (31 + right)
    # gemmlowp: halves up in the product, then halves away from zero.
    high = (product + 2**30) >> 31
    return quotient(high, 1 << right) if right else high


def pooled_entries(f, block, y, x):
    """Return the entries of the sums of a POST's result: one, or a block of 2 x 2."""
    side = 1 + f.pool
    return [
        f.acc_addr + (block * side * f.height + side * y + down) * side * f.width + side * x + right
        for down in range(side)
        for right in range(side)
    ]


def naive_post(f, spad, accumulators):
    columns = CONFIG.columns
    per_block = 4 * columns * f.channel_bias + 5 * columns * f.channel_scale
    for block in range(f.oc_blocks):
        at = f.param_addr + block * per_block
        scale_at = at + 4 * columns * f.channel_bias

        def number(address):
            return int.from_bytes(bytes(spad[address : address + 4]), "little", signed=True)

        for y in range(f.height):
            for x in range(f.width):
                index, *others = pooled_entries(f, block, y, x)
                if f.pairs:
                    pair = f.acc_addr + (block // 2 * f.height + y) * f.width + x
                    index = pair_of(pair, CONFIG)[block % 2]
                # From bytes to bytes there is none, whatever `acc_addr` says.
                entry = accumulators[index] if index < len(accumulators) else None
                for column in range(f.tail if block == f.oc_blocks - 1 else columns):
                    size = 1 + f.words
                    place = x * f.x_step + (block * columns + column) * size
                    bias, multiplier, shift = f.bias, f.multiplier, f.shift
                    if f.channel_bias:
                        bias = number(at + 4 * column)
                    if f.channel_scale:
                        multiplier = number(scale_at + 4 * column)
                        shift = int8(spad[scale_at + 4 * columns + column])
                    value = entry[column] if f.source == Source.ACC else None
                    if f.source == Source.SPAD:
                        first = f.source_addr + y * f.source_pitch + place
                        read = bytes(spad[first : first + size])
                        value = int.from_bytes(read, "little", signed=True)
                    result = scaled(f, wrap(value + bias), multiplier, shift)
                    if f.destination == Destination.SPAD:
                        low, high = f.clamp_low, f.clamp_high
                        if f.words:
                            low, high = low * 256 + f.low_byte, high * 256 + f.high_byte
                        result += f.output_zero
                        # Limits may be the wrong way round: the upper one is looked at first.
                        result = high if result > high else max(low, result)
                        for other in others:
                            more = scaled(
                                f, wrap(accumulators[other][column] + bias), multiplier, shift
                            )
                            more += f.output_zero
                            result = max(result, high if more > high else max(low, more))
                        for byte in range(size):
                            at_byte = f.dest_addr + y * f.dest_pitch + place + byte
                            spad[at_byte] = result >> 8 * byte & 255
                    elif f.destination == Destination.ACC_SET:
                        entry[column] = result
                    else:
                        entry[column] = wrap(entry[column] + result)


def naive_transfer(f, spad, regions):
    dram = regions[f.region]
    for plane in range(f.planes):
        for row in range(f.rows):
            for byte in range(f.row_bytes):
                on_chip = f.spad_addr + plane * f.spad_plane_step + row * f.spad_row_step
                on_chip += byte << f.spread
                outside = f.dram_offset + plane * f.dram_plane_step + row * f.dram_row_step + byte
                if f.opcode is Opcode.STORE:
                    dram[outside] = spad[on_chip]
                else:
                    spad[on_chip] = f.fill_value if f.fill else dram[outside]


def with_scales(instruction, spad, generator):
    """Give a POST legal parameters for each channel if it has none."""
    if instruction.opcode is not Opcode.POST or instruction.rounding == Rounding.AVERAGE:
        return instruction
    changed = Instruction(
        Opcode.POST, {**instruction.values, "channel_scale": 1, "param_addr": 20000}
    )
    size = CONFIG.columns * (4 * changed.channel_bias + 5)
    for block in range(changed.oc_blocks):
        at = 20000 + block * size + 4 * CONFIG.columns * changed.channel_bias
        for column in range(CONFIG.columns):
            value = generator.randrange(2**31).to_bytes(4, "little")
            spad[at + 4 * column : at + 4 * column + 4] = list(value)
            spad[at + 4 * CONFIG.columns + column] = generator.randint(-31, 5) & 255
    return changed


def touches_parameters(instruction):
    """Return whether a POST uses the scratchpad bytes that `with_scales` writes."""
    return any(
        end is not None and end > 20000
        for extent in FORMATS[Opcode.POST].extents
        if extent.memory is AddressSpace.SPAD and extent.base != "param_addr"
        for end in [extent_end(extent, instruction, CONFIG)]
    )


def test_instructions_are_nested_loops(seed):
    """Run streams one instruction at a time; memories must be equal after each."""
    generator = random.Random(seed)
    seen = dict.fromkeys((*Opcode, "narrow"), 0)
    for number in range(8):
        stream = random_stream(seed + number, CONFIG, length=10)
        commands, offset = stream.commands, 0
        made = engine(number)
        for region, contents in stream.regions.items():
            # Parameters of channels are legal there.
            made.regions[region] = np.frombuffer(contents, np.uint8).copy()
        while True:
            instruction, offset = unpack(commands, offset)
            if instruction.opcode is Opcode.END:
                break
            post = instruction.opcode is Opcode.POST
            if post and instruction.rounding == Rounding.AVERAGE:
                continue
            if post and number % 2 and not touches_parameters(instruction):
                instruction = with_scales(instruction, made.spad, generator)
            spad, accumulators = made.spad.tolist(), made.accumulators.tolist()
            regions = {region: memory.tolist() for region, memory in made.regions.items()}
            bare = {name: v for name, v in instruction.values.items() if "wait_" not in name}
            made.run(pack(Instruction(instruction.opcode, bare)) + END)
            if post:
                naive_post(instruction, spad, accumulators)
            elif instruction.opcode is Opcode.EXEC and instruction.window:
                naive_window(instruction, spad, accumulators, CONFIG)
            elif instruction.opcode is Opcode.EXEC:
                naive_exec(instruction, spad, accumulators)
            else:
                naive_transfer(instruction, spad, regions)
            assert made.spad.tolist() == spad, instruction
            assert made.accumulators.tolist() == accumulators, instruction
            for region, memory in made.regions.items():
                assert memory.tolist() == regions[region], instruction
            seen[instruction.opcode] += 1
            seen["narrow"] += instruction.opcode is Opcode.EXEC and instruction.mode > 0
    assert all(count > 5 for opcode, count in seen.items() if opcode is not Opcode.END)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "config",
    [
        PRESETS["small"],
        Config(rows=12, columns=8, broadcast_group=8, lanes=4, weight_rows=3, acc_bytes=16384),
        Config(rows=12, columns=8, broadcast_group=8, lanes=4, weight_rows=4, acc_bytes=16384),
        dataclasses.replace(WIDE, weight_rows=4),
        WIDE,
        # A block has as many bytes as a vector.
        dataclasses.replace(WIDE, columns=4, broadcast_group=4, weight_rows=4),
    ],
    ids=["two lines", "three lines", "blocks", "wide, blocks", "wide", "small blocks"],
)
def test_windows_are_nested_loops(config, seed):
    made, seen, outputs, paired = engine(seed, config), 0, 0, 0
    for number in range(100):
        commands, offset = random_stream(seed + number, config, length=4).commands, 0
        instruction = Instruction(Opcode.LOAD)
        while instruction.opcode is not Opcode.END and seen < 40:
            instruction, offset = unpack(commands, offset)
            if instruction.opcode is not Opcode.EXEC or not instruction.window:
                continue
            spad, accumulators = made.spad.tolist(), made.accumulators.tolist()
            before = made.accumulators.copy()
            bare = {name: v for name, v in instruction.values.items() if "wait_" not in name}
            made.run(pack(Instruction(Opcode.EXEC, bare)) + END)
            naive_window(instruction, spad, accumulators, config)
            assert made.accumulators.tolist() == accumulators, instruction
            seen += 1
            paired += instruction.paired
            outputs += (made.accumulators != before).any(axis=1).sum()
    assert seen == 40
    assert outputs > 30
    assert (paired > 3) == config.has_paired_windows


def legal(**values):
    return {"region": Region.INPUT, "row_bytes": 1, "rows": 1, "planes": 1, **values}


POST = {"width": 1, "height": 1, "oc_blocks": 1, "tail": 1}
#: From the last accumulator entry on, and beyond it.
LAST = {**POST, "width": 2, "x_step": 0, "acc_addr": 255}


@pytest.mark.parametrize(
    ("commands", "cause", "opcode", "address"),
    [
        (b"", Fault.COMMAND_RANGE, 0, 0),
        # The opcode is judged before the length, the length before the fields.
        (bytes([7]) + bytes(15), Fault.ILLEGAL_OPCODE, 7, 0),
        (b"\xf1" + bytes(15), Fault.COMMAND_RANGE, 1, 0),
        (bytes(15) + b"\x80", Fault.ILLEGAL_FIELD, 0, 0),
        (pack(Instruction(Opcode.LOAD)), Fault.ILLEGAL_FIELD, 1, 0),
        (
            pack(
                Instruction(Opcode.LOAD, legal(spad_addr=2**15 - 1, row_bytes=2, dram_offset=6000))
            ),
            Fault.SPAD_RANGE,
            1,
            2**15 + 1,
        ),
        (pack(Instruction(Opcode.LOAD, legal(dram_offset=2**32 - 1))), Fault.DRAM_RANGE, 1, 0),
        (
            pack(Instruction(Opcode.POST, {**LAST, "dest_addr": 32767, "tail": 2})),
            Fault.SPAD_RANGE,
            3,
            32769,
        ),
        (pack(Instruction(Opcode.POST, LAST)), Fault.ACC_RANGE, 3, 257),
        # No configuration of 32 KiB has a bit for these.
        (pack(Instruction(Opcode.POST, {**POST, "acc_addr": 256})), Fault.ILLEGAL_FIELD, 3, 0),
        (pack(Instruction(Opcode.POST, {**POST, "param_addr": 2**15})), Fault.ILLEGAL_FIELD, 3, 0),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
def test_faults(commands, cause, opcode, address):
    made = engine()
    before = made.spad.copy(), made.accumulators.copy()
    with pytest.raises(EngineFaultError, match=f"{cause.name} at instruction 0") as caught:
        made.run(commands)
    fault = caught.value
    assert (fault.cause, fault.index, fault.opcode) == (cause, 0, opcode)
    assert fault.address == address
    assert (made.spad == before[0]).all()
    assert (made.accumulators == before[1]).all()


def test_the_first_failing_check_wins():
    """A STORE that breaks every rule fails the first check; fix that, and it fails the next."""
    everything = legal(wait_load=1, spad_addr=2**15 - 1, row_bytes=2, dram_offset=6000)
    for extra, cause in (
        ({"fill": 1}, Fault.ILLEGAL_FIELD),
        ({}, Fault.READ_ONLY_REGION),
        ({"region": Region.OUTPUT}, Fault.DEPENDENCY),
        ({"region": Region.OUTPUT, "wait_load": 0}, Fault.SPAD_RANGE),
        ({"region": Region.OUTPUT, "wait_load": 0, "spad_addr": 0}, Fault.DRAM_RANGE),
    ):
        store = pack(Instruction(Opcode.STORE, {**everything, **extra}))
        with pytest.raises(EngineFaultError) as caught:
            engine().run(store + END)
        assert caught.value.cause is cause


def test_effects_before_a_fault_stay():
    made = engine()
    fill = Instruction(Opcode.LOAD, legal(fill=1, fill_value=77, spad_addr=5))
    with pytest.raises(EngineFaultError, match="COMMAND_RANGE at instruction 1"):
        made.run(pack(fill))
    assert made.spad[5] == 77
    assert made.executed == 1


def test_a_region_that_is_not_there_is_empty():
    made = Engine(CONFIG)
    with pytest.raises(EngineFaultError, match="DRAM_RANGE"):
        made.run(pack(Instruction(Opcode.LOAD, legal())))
    made.run(pack(Instruction(Opcode.LOAD, legal(fill=1, fill_value=9))) + END)
    assert made.spad[0] == 9
