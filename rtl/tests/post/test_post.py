"""Post: instructions, compared with the functional model; cycles, refused grants, reset."""

import dataclasses
import random

import numpy as np
import pytest

from matloom.arch.config import Config
from matloom.arch.curves import Curve
from matloom.arch.instruction import Instruction
from matloom.arch.isa import (
    FORMATS,
    REQUIRED_WITH_RESULT,
    Addend,
    Destination,
    Opcode,
    RowFunction,
    Source,
    Table,
)
from matloom.arch.numerics import SUPPORTED_ROUNDINGS, Rounding
from matloom.arch.post_latency import maxima_latency
from matloom.arch.softmax_cycles import rows_cycles
from matloom.device.model.post import TableContents, post
from matloom_rtl.ports import ACC_READ_LATENCY, SPAD_READ_LATENCY, body_layout
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.post import Post
from matloom_rtl.testing import cached_unit, simulate, with_reset

CONFIGS = {
    "4_by_2": Config(rows=4, columns=4, broadcast_group=4, lanes=2, acc_bytes=1024),
    "8_by_2": Config(rows=8, columns=8, broadcast_group=8, lanes=2, acc_bytes=2048, products=3),
    "8_by_8": Config(rows=8, columns=8, broadcast_group=8, lanes=8, acc_bytes=2048),
    "narrow": Config(
        rows=4, columns=4, broadcast_group=4, lanes=2, acc_bytes=2048, mac_modes=("i8xi8", "i8xi4")
    ),
}
WORDS = {
    "4_by_2": Config(
        rows=4, columns=4, broadcast_group=4, lanes=2, acc_bytes=1024, mac_modes=("i8xi8", "i16xi8")
    ),
    "8_by_8": Config(
        rows=8, columns=8, broadcast_group=4, lanes=8, acc_bytes=2048, mac_modes=("i8xi8", "i16xi8")
    ),
    "functions": Config(
        rows=4,
        columns=4,
        broadcast_group=4,
        lanes=2,
        acc_bytes=1024,
        products=4,
        curves=1,
        mac_modes=("i8xi8", "i16xi8"),
    ),
    "with_fp16": Config(
        rows=4,
        columns=4,
        broadcast_group=4,
        lanes=2,
        float_rows=2,
        acc_bytes=1024,
        mac_modes=("i8xi8", "i16xi8", "fp16"),
    ),
}
SOFTMAX = {
    "4_by_2": Config(rows=4, columns=4, lanes=2, acc_bytes=1024, tables=0, softmax=1),
    "8_by_8": Config(rows=8, columns=8, lanes=8, acc_bytes=2048, softmax=4),
    "8_at_once": Config(rows=8, columns=8, lanes=8, acc_bytes=2048, softmax=8),
    "12_by_1": Config(
        rows=12, columns=12, lanes=1, acc_bytes=768, mac_modes=("i8xi8", "i16xi8"), softmax=1
    ),
}
FLOATS = Config(
    rows=4,
    columns=4,
    broadcast_group=4,
    lanes=2,
    float_rows=2,
    acc_bytes=1024,
    mac_modes=("i8xi8", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"),
)
#: Limits of floating-point results, as fp8_e5m2: none, 0 to 6, -1.5 to 0.375.
LIMITS = ((-4, 124), (0, 0x46), (0xBE - 256, 0x36))
SPAD_BYTES = 4096
PARAMETERS = 3000


def draw(generator, config, **fixed):
    """Return the fields of a POST whose accesses do not overlap."""
    width, height = generator.randint(1, 5), generator.randint(1, 3)
    blocks, tail = generator.randint(1, 3), generator.randint(1, config.columns)
    words = fixed.get("words", int(config.has_words and generator.random() < 0.5))
    # Steps are of the sizes that hold, so that no element is written twice.
    row = (fixed.get("oc_blocks", blocks) - 1) * config.columns + fixed.get("tail", tail)
    step = fixed.get("x_step", (row << words) + generator.choice((0, 2)))
    pitch = fixed.get("width", width) * step
    values = {item.name: 0 for item in FORMATS[Opcode.POST].fields}
    values |= {
        "timestamp": generator.randrange(64),
        "source": generator.choice(tuple(Source)),
        "destination": generator.choice(tuple(Destination)),
        "rounding": generator.choice(SUPPORTED_ROUNDINGS),
        "channel_bias": generator.randint(0, 1),
        "channel_scale": generator.randint(0, 1),
        "pre_shift": generator.choice((0, 20)),
        "bias": generator.randint(-1000, 1000),
        "multiplier": generator.randint(2**30, 2**31 - 1),
        "shift": generator.randint(-12, 0),
        "output_zero": generator.randint(-128, 127),
        "clamp_low": -100,
        "clamp_high": 110,
        "width": width,
        "height": height,
        "oc_blocks": blocks,
        "tail": tail,
        "x_step": step,
        "acc_addr": generator.randrange(8),
        "source_addr": generator.randrange(50),
        "source_pitch": pitch + 3,
        "dest_addr": 1000 + generator.randrange(50),
        "dest_pitch": pitch + 1,
        "param_addr": PARAMETERS + generator.randrange(20),
        "table": generator.choice(config.table_uses),
        "product": generator.randint(0, 1),
        "factor_zero": generator.randint(-128, 127),
        "pairs": generator.randint(0, int(config.has_narrow)),
        "words": words,
    }
    if words:
        values |= {side: generator.randrange(256) for side in ("low_byte", "high_byte")}
        # Such a POST has no table, and a product only if it is built.
        product = values["product"] if config.has_word_products else 0
        fixed = {"product": product, **fixed, "table": Table.NONE}
    drawn = values | fixed
    if config.has_curves and words and drawn["destination"] == Destination.SPAD:
        values["curve"] = generator.choice(tuple(Curve))
    bytes_only = not words and drawn["rounding"] != Rounding.FLOAT
    if config.has_addends and bytes_only and not drawn["product"]:
        others = set(config.addends) - {Addend.RESULT}
        values["addend"] = generator.choice(sorted(others))
    if values["pairs"]:
        # Some of either bank.
        values["acc_addr"] = generator.randint(0, config.acc_pairs - width * height * 2)
    return values | fixed


def fill(config, address, timestamp=1, rows=None):
    """Return the fields of a POST that fills rows of the table, by default all 256 bytes."""
    values = {item.name: 0 for item in FORMATS[Opcode.POST].fields}
    size = config.table_row_bytes
    return values | {
        "timestamp": timestamp,
        "source": Source.SPAD,
        "multiplier": 2**30,
        "shift": 1,
        "clamp_low": -128,
        "clamp_high": 127,
        "width": rows or 256 // size,
        "height": 1,
        "oc_blocks": 1,
        "tail": size,
        "x_step": size,
        "source_addr": address,
        "table": Table.FILL,
    }


def initial_state(config, seed):
    """Return bytes, with legal parameter blocks wherever they may be read, and sums."""
    noise = np.random.default_rng(seed)
    spad = noise.integers(0, 256, SPAD_BYTES, np.uint8)
    sums = noise.integers(-(2**20), 2**20, (config.acc_entries, config.columns)).astype(np.int32)
    return spad, sums


def put_parameters(spad, values, config, seed):
    noise = np.random.default_rng(seed)
    columns, place = config.columns, values["param_addr"]
    for _block in range(values["oc_blocks"]):
        parts = []
        if values["channel_bias"]:
            parts.append(noise.integers(-(2**20), 2**20, columns).astype("<i4"))
        if values["channel_scale"]:
            parts.append(noise.integers(2**30, 2**31, columns).astype("<i4"))
            parts.append(noise.integers(-20, 3, columns).astype("i1"))
        for part in parts:
            raw = np.frombuffer(part.tobytes(), np.uint8)
            spad[place : place + raw.size] = raw
            place += raw.size


def run(config, instructions, spad, sums, *, refuse=0.0, gaps=0.0, seed=0, reset_at=None):
    """Execute instructions on copies of memories; return these, the timestamps and cycles."""
    dut = cached_unit(Post, config)
    wrapped, reset = with_reset(dut)
    generator = random.Random(seed)
    spad, sums = spad.copy(), sums.copy()
    start_spad, start_sums = spad.copy(), sums.copy()
    timestamps, taken, state = [], [], {"live": reset_at is None}
    names = [name for name, _field in body_layout(Opcode.POST, config)]

    async def feed(ctx):
        if reset_at is not None:
            ctx.set(dut.unit.command.payload, {name: instructions[0][name] for name in names})
            ctx.set(dut.unit.command.valid, 1)
            ctx.set(dut.fetch, 1)
            await ctx.tick().until(dut.unit.command.ready)
            ctx.set(dut.unit.command.valid, 0)
            ctx.set(dut.fetch, 0)
            await ctx.tick().repeat(reset_at)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            await ctx.tick().repeat(10)
            spad[:], sums[:] = start_spad, start_sums
            timestamps.clear()
            state["live"] = True
        for values in instructions:
            while generator.random() < gaps:
                await ctx.tick()
            ctx.set(dut.unit.command.payload, {name: values[name] for name in names})
            ctx.set(dut.fetch, 1)
            # Parameters are fetched before the rest of what an instruction waits for is there.
            while generator.random() < gaps:
                await ctx.tick()
            ctx.set(dut.unit.command.valid, 1)
            await ctx.tick().until(dut.unit.command.ready)
            ctx.set(dut.unit.command.valid, 0)
            ctx.set(dut.fetch, 0)

    async def memories(ctx):
        bytes_later = [0] * (SPAD_READ_LATENCY - 1)
        sums_later = [0] * (ACC_READ_LATENCY - 1)
        columns, cycle = config.columns, 0
        ports = (dut.spad_read, dut.acc_read, dut.spad_write, dut.acc_update)
        while len(timestamps) < len(instructions) or not state["live"]:
            for port in ports:
                ctx.set(port.ready, generator.random() >= refuse)
            sample = await ctx.tick().sample(
                *(value for port in ports for value in (port.valid, port.ready, port.address)),
                dut.spad_write.mask,
                dut.acc_update.mask,
                dut.acc_update.add,
                dut.unit.done,
                dut.unit.done_mark,
            )
            grants = [
                (sample[2 + 3 * k] and sample[3 + 3 * k], sample[4 + 3 * k]) for k in range(4)
            ]
            mask, update_mask, add, done, timestamp = sample[14:]
            # They follow their grants.
            data, update = ctx.get(dut.spad_write.data), ctx.get(dut.acc_update.data)
            read, address = grants[0]
            picked = np.take(spad, range(address, address + columns), mode="wrap").tobytes()
            bytes_later.append(int.from_bytes(picked, "little") if read else 0)
            ctx.set(dut.spad_read.data, bytes_later.pop(0))
            read, entry = grants[1]
            sums_later.append(int.from_bytes(sums[entry].tobytes(), "little") if read else 0)
            ctx.set(dut.acc_read.data, sums_later.pop(0))
            wrote, address = grants[2]
            for index in range(columns):
                if wrote and mask >> index & 1:
                    spad[address + index] = data >> 8 * index & 255
            wrote, entry = grants[3]
            for index in range(columns):
                if wrote and update_mask >> index & 1:
                    word = (update >> 32 * index & 0xFFFFFFFF) + int(sums[entry, index]) * add
                    sums[entry, index] = np.uint32(word % 2**32).astype(np.int32)
            if done:
                timestamps.append(timestamp)
                taken.append(cycle)
            cycle += 1

    simulate(wrapped, feed, memories, cycles=20000)
    return spad, sums, timestamps, taken


def check(config, instructions, seed, **options):
    spad, sums = initial_state(config, seed)
    for values in instructions:
        put_parameters(spad, values, config, seed)
    got_spad, got_sums, timestamps, taken = run(
        config, instructions, spad, sums, seed=seed, **options
    )
    tables = TableContents.of(config)
    for values in instructions:
        post(Instruction(Opcode.POST, values), spad, sums, tables, config)
    assert np.array_equal(got_spad, spad)
    assert np.array_equal(got_sums, sums)
    assert timestamps == [values["timestamp"] for values in instructions]
    return taken


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("destination", Destination)
def test_every_source_and_destination(seed, name, source, destination):
    generator = random.Random(seed)
    for rounding in SUPPORTED_ROUNDINGS:
        fixed = {"source": source, "destination": destination, "rounding": rounding}
        values = draw(generator, CONFIGS[name], **fixed)
        check(CONFIGS[name], [values], seed)


@pytest.mark.parametrize("name", CONFIGS)
def test_vectors_at_full_rate(seed, name):
    """A single block of many vectors takes its beats and a fixed overhead."""
    config = CONFIGS[name]
    fixed = {
        "width": 20,
        "height": 2,
        "oc_blocks": 1,
        "tail": config.columns,
        "x_step": config.columns,
        "dest_pitch": 20 * config.columns,
        "source": Source.ACC,
        "destination": Destination.SPAD,
        "channel_bias": 1,
        "channel_scale": 1,
        "rounding": Rounding.DOUBLE,
        "table": Table.NONE,
    }
    (taken,) = check(config, [draw(random.Random(seed), config, **fixed)], seed)
    beats = 40 * config.columns // config.lanes
    # 9 reads of parameters, 7 until they arrive, 12 lanes, 4 to settle, handovers.
    assert beats + 33 <= taken <= beats + 42


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_fetched_ahead(seed, name):
    """There is one idle cycle between blocks, and only the lanes' latency between instructions."""
    config = CONFIGS[name]
    fixed = {"tail": config.columns, "x_step": 3 * config.columns, "height": 1, "source_addr": 0}
    fixed |= {"source": Source.ACC, "destination": Destination.SPAD, "dest_addr": 1000}
    fixed |= {"channel_bias": 1, "channel_scale": 1, "param_addr": PARAMETERS, "acc_addr": 0}
    fixed |= {"table": Table.NONE}
    vectors, beats = 20, config.columns // config.lanes

    def taken(width, blocks, instructions):
        values = fixed | {"width": width, "oc_blocks": blocks}
        drawn = draw(random.Random(seed), config, **values)
        return check(config, [drawn] * instructions, seed)

    (one,) = taken(vectors, 1, 1)
    (three,) = taken(vectors, 3, 1)
    assert three - one == 2 * (vectors * beats + 1)
    first, second, third = taken(vectors, 1, 3)
    assert first == one
    assert second - first == third - second == vectors * beats + Lane.LATENCY + ACC_READ_LATENCY + 9
    # A block shorter than the fetch of the next one's parameters waits for them.
    (short,), (shorts,) = taken(1, 1, 1), taken(1, 2, 1)
    assert shorts - short <= 21


def steady(config, count, **fixed):
    """Return the fields of one block of whole vectors, without parameters."""
    return {
        **dict.fromkeys(
            ("channel_bias", "channel_scale", "acc_addr", "source_addr", "oc_blocks"), 0
        ),
        "width": count,
        "height": 1,
        "oc_blocks": 1,
        "tail": config.columns,
        "x_step": config.columns,
        "dest_addr": 1000,
        "destination": Destination.SPAD,
        **fixed,
    }


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("tables", [1, 2])
@pytest.mark.parametrize("name", CONFIGS)
def test_tables_are_filled_and_looked_up_at_full_rate(seed, name, tables):
    config = dataclasses.replace(CONFIGS[name], tables=tables)
    generator, beats = random.Random(seed), config.columns // config.lanes
    plain = steady(config, 60, source=Source.ACC, table=Table.NONE)
    looked_up = plain | {"table": Table.LOOK_UP}
    instructions = [fill(config, 2000), *(draw(generator, config, **plain) for _ in range(2))]
    instructions += [draw(generator, config, **looked_up) for _ in range(2)]
    filled, _first, plain, looked_first, looked = check(config, instructions, seed)
    rows, size = 256 // config.table_row_bytes, config.table_row_bytes
    if tables == 1:
        assert filled == rows * beats + Lane.LATENCY + 16
    else:
        # A row is taken when the one before is written, a byte a cycle.
        assert filled == rows * (size + 1) + beats + Lane.LATENCY + 15
    assert looked - looked_first == plain - _first + 1


@pytest.mark.slow
@pytest.mark.parametrize("tables", [1, 2])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_table_is_filled_from_its_first_entry(seed, name, tables):
    """A fill of any number of rows starts at entry 0, also after other fills and look-ups."""
    config = dataclasses.replace(CONFIGS[name], tables=tables)
    generator, rows = random.Random(seed), 256 // config.table_row_bytes
    looked_up = steady(config, 60, source=Source.ACC, table=Table.LOOK_UP)
    instructions = []
    for count in (3, rows, 1, rows - 1, rows, generator.randint(1, rows)):
        instructions += [
            fill(config, generator.randrange(1000, 2700), rows=count),
            *(draw(generator, config, **looked_up) for _ in range(generator.randint(0, 2))),
        ]
    instructions.append(draw(generator, config, **looked_up))
    check(config, instructions, seed)


def test_tables_of_columns_are_filled_and_looked_up_at_full_rate(seed):
    config = Config(rows=4, columns=4, lanes=4, acc_bytes=1024, channel_tables=1)
    generator = random.Random(seed)
    looked_up = steady(config, 60, source=Source.ACC, table=Table.LOOK_UP)
    vectors = 4 * 256 // config.table_row_bytes
    instructions = [
        {**fill(config, 2000, rows=vectors), "table": Table.FILL_EACH},
        *(draw(generator, config, **looked_up) for _ in range(2)),
        # A few rows of the first lane, then of all.
        {**fill(config, 1000, rows=3), "table": Table.FILL_EACH},
        draw(generator, config, **looked_up),
        fill(config, 1500, rows=5),
        draw(generator, config, **looked_up),
    ]
    filled = check(config, instructions, seed)[0]
    assert filled == vectors + Lane.LATENCY + 16


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CONFIGS)
def test_products_come_at_full_rate(seed, name):
    config = CONFIGS[name]
    generator, beats = random.Random(seed), config.columns // config.lanes
    fixed = steady(config, 60, source=Source.SPAD, table=Table.NONE, product=1)
    drawn = [draw(generator, config, **fixed) for _ in range(2)]
    first, second = check(config, drawn, seed)
    assert second - first == 60 * beats + Lane.LATENCY + 18


RESULT_SUMS = {
    "16_by_16": Config(rows=4, columns=16, acc_bytes=4096, result_sums=1),
    "with_squares": Config(
        rows=4, columns=16, acc_bytes=4096, products=3, channel_tables=1, pooling=1, result_sums=1
    ),
}


def draw_sum(generator, config, **fixed):
    """Return the fields of a POST that adds bytes to its results."""
    fixed |= {**REQUIRED_WITH_RESULT, "product": 0, "addend": Addend.RESULT}
    return draw(generator, config, **fixed)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", RESULT_SUMS)
def test_sums_of_results(seed, name):
    """Instructions with and without sums of results alternate, with refused grants and gaps."""
    config, generator = RESULT_SUMS[name], random.Random(seed)
    fixed = {"param_addr": PARAMETERS, "oc_blocks": 2, "channel_bias": 1, "channel_scale": 1}
    instructions = [fill(config, 2000)]
    for _ in range(3):
        instructions.append(draw_sum(generator, config, **fixed))
        instructions.append(draw(generator, config, **fixed, table=Table.LOOK_UP))
        instructions.append(draw_sum(generator, config, **fixed))
    check(config, instructions, seed, refuse=generator.choice((0.0, 0.4)), gaps=0.3)


def test_each_lane_adds_with_its_own_table(seed):
    config, generator = RESULT_SUMS["with_squares"], random.Random(seed)
    rows = config.columns * 256 // config.table_row_bytes
    filled = {**fill(config, 0, rows=rows // 2), "table": Table.FILL_EACH}
    check(config, [filled, *(draw_sum(generator, config) for _ in range(3))], seed)


@pytest.mark.parametrize("name", RESULT_SUMS)
def test_sums_of_results_come_at_full_rate(seed, name):
    config, generator = RESULT_SUMS[name], random.Random(seed)
    fixed = steady(config, 60)
    drawn = [draw_sum(generator, config, **fixed) for _ in range(2)]
    first, second = check(config, drawn, seed)
    assert second - first == 60 + Lane.LATENCY + 23


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", RESULT_SUMS)
def test_reset_amid_sums_of_results(seed, name):
    config, generator = RESULT_SUMS[name], random.Random(seed)
    drawn = [draw_sum(generator, config, width=5, height=3) for _ in range(2)]
    for cycle in (20, 24, 28, 33, 37, 41):
        check(config, [*drawn, *drawn], seed, reset_at=cycle)


POOLING = {name: dataclasses.replace(config, pooling=1) for name, config in CONFIGS.items()}
#: With a register in front of the comparison.
POOLING["registered"] = dataclasses.replace(POOLING["4_by_2"], tables=2)


def draw_pooled(generator, config, **fixed):
    """Return the fields of a POST that writes maxima of 2 x 2 results."""
    width, height, blocks = (generator.randint(1, 2) for _ in range(3))
    sums = {"source": Source.ACC, "destination": Destination.SPAD, "pairs": 0, "product": 0}
    table = generator.choice((Table.NONE, Table.LOOK_UP))
    size = {"width": width, "height": height, "oc_blocks": blocks}
    return draw(generator, config, **{**sums, **size, "pool": 1, "table": table, **fixed})


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", POOLING)
def test_maxima_of_blocks(seed, name):
    """Pooled and plain instructions alternate, with refused grants and gaps between them."""
    config, generator = POOLING[name], random.Random(seed)
    fixed = {"param_addr": PARAMETERS, "oc_blocks": 2, "channel_bias": 1, "channel_scale": 1}
    instructions = [fill(config, 2000)]
    for _ in range(4):
        instructions.append(draw_pooled(generator, config, **fixed))
        instructions.append(draw(generator, config, **fixed, table=Table.NONE))
    check(config, instructions, seed, refuse=generator.choice((0.0, 0.4)), gaps=0.3)


@pytest.mark.parametrize("name", POOLING)
def test_maxima_take_the_time_of_their_sums(seed, name):
    config, generator = POOLING[name], random.Random(seed)
    beats = config.columns // config.lanes
    fixed = {"table": Table.NONE, "x_step": 3 * config.columns, "source_addr": 0}
    fixed |= {"dest_addr": 1000, "height": 1, "oc_blocks": 1, "tail": config.columns}
    fixed |= {"channel_bias": 0, "channel_scale": 0, "acc_addr": 0}

    def taken(width):
        drawn = draw_pooled(generator, config, **fixed, width=width)
        return check(config, [drawn], seed)[0]

    sums = {"source": Source.ACC, "destination": Destination.SPAD}
    (plain,) = check(config, [draw(generator, config, **fixed, **sums, width=4)], seed)
    plain += maxima_latency(config)
    assert taken(1) == plain
    assert taken(4) == plain + 12 * beats


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", POOLING)
def test_reset_amid_a_block_of_maxima(seed, name):
    config, generator = POOLING[name], random.Random(seed)
    fixed = {"param_addr": PARAMETERS, "oc_blocks": 2, "channel_bias": 1, "channel_scale": 1}
    drawn = [draw_pooled(generator, config, **fixed, table=Table.NONE) for _ in range(2)]
    for cycle in (20, 30, 31, 32, 33, 34, 40):
        check(config, drawn, seed, reset_at=cycle)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("tables", [0, 1])
@pytest.mark.parametrize("products", [0, 1])
def test_units_that_are_not_built(seed, tables, products):
    """Without tables and products, commands lack their fields, and everything else is the same."""
    config = dataclasses.replace(CONFIGS["4_by_2"], tables=tables, products=products)
    absent = {} if tables else {"table": Table.NONE}
    absent |= {} if products else {"product": 0, "factor_zero": 0}
    generator = random.Random(seed)
    check(config, [draw(generator, config, **absent) for _ in range(3)], seed)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("source", Source)
def test_words(seed, name, source):
    """Instructions with 16-bit and 8-bit elements alternate, with full and partial vectors."""
    config, generator = WORDS[name], random.Random(seed)
    for destination in Destination:
        fixed = {"source": source, "destination": destination, "param_addr": PARAMETERS}
        fixed |= {"oc_blocks": 2, "channel_bias": 1, "channel_scale": 1}
        instructions = [
            draw(generator, config, words=words, rounding=rounding, **fixed)
            for words, rounding in zip((1, 0, 1), SUPPORTED_ROUNDINGS, strict=True)
        ]
        check(config, instructions, seed)


def test_16_bit_elements_are_adjacent(seed):
    """Compare with integers: sums, scaled and limited, in two bytes each."""
    config = WORDS["4_by_2"]
    spad, sums = initial_state(config, seed)
    values = steady(config, 16, source=Source.ACC, x_step=8, words=1)
    values |= {"rounding": Rounding.SINGLE, "multiplier": 2**30, "shift": -3, "pre_shift": 0}
    # -32768 + 5 and 20 * 256 + 7: neither is a whole number of 256.
    values |= {"clamp_low": -128, "low_byte": 5, "clamp_high": 20, "high_byte": 7}
    drawn = draw(random.Random(seed), config, **values, bias=0, output_zero=0)
    got, _sums, _timestamps, _taken = run(config, [drawn], spad, sums)
    expected = np.clip((sums[:16].astype(np.int64) + 8) >> 4, -32768 + 5, 20 * 256 + 7)
    assert np.array_equal(got[1000:1128].view("<i2"), expected.ravel())
    assert len(set(expected.ravel().tolist())) > 20


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("source", Source)
def test_words_at_full_rate(seed, name, source):
    """A vector takes its beats, or a cycle for each byte of a 16-bit element."""
    config, generator = WORDS[name], random.Random(seed)

    def apart(count):
        fixed = steady(config, count, source=source, x_step=2 * config.columns, words=1)
        drawn = [draw(generator, config, **fixed) for _ in range(2)]
        first, second = check(config, drawn, seed)
        return second - first

    beats = max(2, config.columns // config.lanes)
    assert apart(60) - apart(30) == 30 * beats


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("source", "refuse"), [(Source.ACC, 0.4), (Source.SPAD, 0)])
def test_floats(seed, source, refuse):
    """Successive instructions add a bias to elements of each format and of fp32, and limit them."""
    config, generator, noise = FLOATS, random.Random(seed), np.random.default_rng(seed)
    spad, _sums = initial_state(config, seed)
    normal = noise.standard_normal((config.acc_entries, config.columns)).astype(np.float32)
    normal[6:14, 1] = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 2.0)
    biases = noise.standard_normal(8 * config.columns).astype("<f4")
    spad[PARAMETERS : PARAMETERS + 4 * biases.size] = biases.view(np.uint8)
    instructions = []
    for number in config.post_formats:
        for destination in (Destination.SPAD, Destination.ACC_SET):
            low, high = generator.choice(LIMITS)
            fixed = {"source": source, "destination": destination, "rounding": Rounding.FLOAT}
            fixed |= {"pre_shift": number, "param_addr": PARAMETERS, "channel_scale": 0, "words": 0}
            fixed |= {"table": Table.NONE, "product": 0, "clamp_low": low, "clamp_high": high}
            fixed |= {"bias": int(noise.standard_normal(1).astype("<f4").view("<i4")[0])}
            fixed |= {"x_step": 50, "source_pitch": 270, "dest_pitch": 251}
            instructions.append(draw(generator, config, **fixed))
    table, sums = np.zeros(256, np.uint8), normal.view(np.int32)
    found, found_sums, _timestamps, _taken = run(
        config, instructions, spad, sums, seed=seed, refuse=refuse
    )
    expected, expected_sums = spad.copy(), sums.copy()
    for values in instructions:
        post(Instruction(Opcode.POST, values), expected, expected_sums, table, config)
    assert np.array_equal(found, expected)
    assert np.array_equal(found_sums, expected_sums)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("refuse", "gaps"), [(0.5, 0), (0, 0.8), (0.4, 0.5)])
@pytest.mark.parametrize("config", [CONFIGS["8_by_2"], WORDS["8_by_8"]], ids=("bytes", "words"))
def test_refused_and_late(seed, refuse, gaps, config):
    generator = random.Random(seed)
    # One after the other on the same memories: each starts when the one before is visible.
    fixed = {"param_addr": PARAMETERS, "channel_bias": 1, "channel_scale": 1, "oc_blocks": 2}
    fixed |= {"width": 3, "x_step": 28, "tail": 5, "dest_pitch": 90, "source_pitch": 90}
    instructions = [draw(generator, config, **fixed) for _ in range(6)]
    check(config, instructions, seed, refuse=refuse, gaps=gaps)


@pytest.mark.parametrize("reset_at", [25, 40])
def test_reset_midway(seed, reset_at):
    """A reset comes between the beats of a vector, or between the bytes of 16-bit elements.

    Results written before the reset stay, so the instructions must not read what they write.
    """
    generator = random.Random(seed)
    fixed = {"width": 5, "height": 3, "oc_blocks": 2, "tail": 4, "addend": 0}
    fixed["destination"] = Destination.SPAD
    config = CONFIGS["8_by_2"]
    values = draw(generator, config, source=Source.ACC, **fixed)
    check(config, [values], seed, reset_at=reset_at)
    config = WORDS["8_by_8"]
    fixed["destination"] = generator.choice((Destination.SPAD, Destination.ACC_SET))
    values = draw(generator, config, source=Source.SPAD, words=1, **fixed)
    check(config, [values], seed, reset_at=reset_at)


def test_an_idle_unit_makes_no_progress():
    """The watchdog counts cycles without progress: an idle unit must not feed it."""
    dut = Post(CONFIGS["4_by_2"])

    async def bench(ctx):
        for port in (dut.spad_read, dut.acc_read, dut.spad_write, dut.acc_update):
            ctx.set(port.ready, 1)
        for _cycle in range(20):
            assert not ctx.get(dut.unit.progress)
            await ctx.tick()

    simulate(dut, bench, cycles=30)


def test_no_progress_without_grants(seed):
    """The watchdog must see both a POST that progresses and one that is stuck."""
    config, told = CONFIGS["4_by_2"], []
    dut, values = Post(config), steady(config, 60, source=Source.ACC, table=Table.NONE)
    values = draw(random.Random(seed), config, **values)

    async def bench(ctx):
        names = [name for name, _field in body_layout(Opcode.POST, config)]
        ctx.set(dut.unit.command.payload, {name: values[name] for name in names})
        ctx.set(dut.unit.command.valid, 1)
        ctx.set(dut.fetch, 1)
        for cycle in range(150):
            for port in (dut.spad_read, dut.acc_read, dut.spad_write, dut.acc_update):
                ctx.set(port.ready, not 60 <= cycle < 110)
            _clk, _rst, taken, progress = await ctx.tick().sample(
                dut.unit.command.ready, dut.unit.progress
            )
            if taken:
                ctx.set(dut.unit.command.valid, 0)
                ctx.set(dut.fetch, 0)
            told.append(progress)

    simulate(dut, bench, cycles=200)
    assert sum(told[:60]) > 20
    # What was on its way through the lanes arrives.
    assert not any(told[90:110])
    assert sum(told[110:]) > 20


def softmax(config, rows, size, **fixed):
    """Return the fields of a POST that fills the table, and of one that computes SOFTMAX."""
    table = {**fill(config, 200, rows=1024 // config.table_row_bytes), "table": Table.NONE}
    values = {item.name: 0 for item in FORMATS[Opcode.POST].fields}
    values |= {"timestamp": 5, "source": Source.SPAD, "width": 1, "height": rows}
    values |= {"oc_blocks": -(-size // config.columns), "tail": (size - 1) % config.columns + 1}
    values |= {"source_addr": 1300, "source_pitch": size, "dest_addr": 2500, "dest_pitch": size + 1}
    # Irrelevant.
    values |= {"bias": 77, "multiplier": 3, "shift": -9, "pre_shift": 4, "rounding": 1}
    values |= {"clamp_low": 1, "clamp_high": 1, "output_zero": 5}
    return {**table, "softmax": RowFunction.FILL}, {
        **values,
        "softmax": RowFunction.SOFTMAX,
        **fixed,
    }


def test_softmax_keeps_to_its_own_table_and_parameters(seed):
    """Filling the table of exponentials leaves the byte tables as they were.

    The biases of the POST before SOFTMAX do not reach the lanes that SOFTMAX borrows.
    """
    config, generator = SOFTMAX["8_by_8"], random.Random(seed)
    assert config.tables
    plain = steady(config, 60, source=Source.ACC, table=Table.NONE, bias=12345)
    filled, made = softmax(config, 3, 10, timestamp=6)
    instructions = [fill(config, 2000), filled, draw(generator, config, **plain), made]
    check(
        config, [*instructions, draw(generator, config, **(plain | {"table": Table.LOOK_UP}))], seed
    )


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", SOFTMAX)
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (3, 10), (18, 24), (32, 37)])
def test_softmax_of_rows(seed, name, rows, size):
    """Passes, pauses and overhead take the cycles that predictions count."""
    config, others = SOFTMAX[name], random.Random(seed)
    after = draw(others, config, source=Source.ACC, words=0)
    filled, made, _after = check(config, [*softmax(config, rows, size), after], seed)
    vectors = -(-size // config.columns)
    overhead = 34 if config.has_words else 33
    assert made - filled == rows_cycles(rows, vectors, config) + overhead
    # A row takes a cycle for each entry and one more, or as long as its results.
    row = max(config.table_row_bytes // 4 + 1, config.columns // config.lanes)
    assert filled - 1024 // config.table_row_bytes * row in range(27, 33)
