"""Random legal instruction streams: raw stimuli for comparing devices, from the ISA's tables."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction, extent_end, illegal_field, pack
from matloom.arch.isa import (
    FORMATS,
    WRITABLE_REGIONS,
    Destination,
    Memory,
    Opcode,
    Region,
    Source,
    Table,
    post_element_bytes,
)
from matloom.arch.numerics import Rounding
from matloom.device.driver import Driver
from matloom.schedule.order import Order
from matloom.verify import overlaps_itself

__all__ = ["Stream", "clear_state", "random_stream", "read_state", "run_stream"]

#: Size of each region of external memory that a stream uses, in bytes.
REGION_BYTES = 6000

#: An instruction that takes longer than this many element steps is drawn again.
_MOST_STEPS = 1500

_SMALL = (1, 1, 2, 3, 4, 7)


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A command buffer with the contents of the regions before it runs.

    Members
    -------
    instructions:
        END last.
    commands:
        The same, packed.
    regions:
        Contents of each region except PROGRAM, whose constants begin behind the commands.
    """

    instructions: tuple[Instruction, ...]
    commands: bytes
    regions: dict[Region, bytes]


def random_stream(seed: int, config: Config, length: int = 12) -> Stream:
    """Return a legal, hazard-free stream of about `length` instructions.

    Fields, addresses, strides and overlaps are random; waits are those that the accesses need,
    so units overlap as far as the dependencies let them.
    """
    generator = random.Random(f"{seed}-{config.digest}")
    regions: dict[Region, bytes] = {
        region: generator.randbytes(REGION_BYTES) for region in Region if region != Region.PROGRAM
    }
    if config.has_float and seed % 4:
        # Of any bytes, a sum of products is infinite or NaN: most numbers are below two.
        regions = {region: bytes(byte & 0xBF for byte in all_) for region, all_ in regions.items()}
    order = Order(config, dict.fromkeys(WRITABLE_REGIONS, REGION_BYTES))
    for values in _fill_scratchpad(config, generator):
        order.append(Opcode.LOAD, **values)
    if config.tables:
        # Of the table nothing is known.
        address = generator.randrange(config.spad_bytes - 255)
        order.append(Opcode.POST, **_fill_table(config, address))
    for _number in range(length):
        opcode, values = _instruction(generator, config)
        values["mark"] = generator.randrange(config.marks)
        order.append(opcode, **values)
    for region in WRITABLE_REGIONS:
        values = _random_values(generator, config, Opcode.STORE)
        order.append(Opcode.STORE, **{**values, "region": region})
    order.end()
    instructions = tuple(order.instructions)
    return Stream(
        instructions=instructions,
        commands=b"".join(pack(instruction) for instruction in instructions),
        regions=regions,
    )


def _fill_scratchpad(config: Config, generator: random.Random) -> Iterator[dict[str, int]]:
    """Put noise into some of the scratchpad, so that reads meet more than zeros."""
    for _number in range(3):
        size = min(REGION_BYTES, config.spad_bytes // 2)
        yield {
            "region": Region.INPUT,
            "dram_offset": 0,
            "spad_addr": generator.randrange(config.spad_bytes - size + 1),
            "row_bytes": size,
            "rows": 1,
            "planes": 1,
        }


def _fill_table(config: Config, address: int) -> dict[str, int]:
    """Return the fields of a POST that fills all of the table from an address on."""
    return {
        "source": Source.SPAD,
        "destination": Destination.SPAD,
        "multiplier": 2**30,
        "shift": 1,
        "clamp_low": -128,
        "clamp_high": 127,
        "width": 256 // config.table_row_bytes,
        "height": 1,
        "oc_blocks": 1,
        "tail": config.table_row_bytes,
        "x_step": config.table_row_bytes,
        "source_addr": address,
        "table": Table.FILL,
    }


def _instruction(generator: random.Random, config: Config) -> tuple[Opcode, dict[str, int]]:
    opcode = generator.choices((Opcode.LOAD, Opcode.EXEC, Opcode.POST, Opcode.STORE), (3, 4, 4, 2))[
        0
    ]
    return opcode, _random_values(generator, config, opcode)


def _random_values(generator: random.Random, config: Config, opcode: Opcode) -> dict[str, int]:
    """Draw fields until all extents fit; addresses are placed last."""
    draw = {
        Opcode.LOAD: _transfer,
        Opcode.STORE: _transfer,
        Opcode.EXEC: _exec,
        Opcode.POST: _post,
    }[opcode]
    while True:
        values, steps = draw(generator, config, opcode)
        if steps <= _MOST_STEPS and _place(generator, config, opcode, values):
            return values


def _place(
    generator: random.Random, config: Config, opcode: Opcode, values: dict[str, int]
) -> bool:
    """Choose the base of every extent so that it fits; False where none does."""
    capacity = {
        Memory.SPAD: config.spad_bytes,
        Memory.ACC: config.acc_entries,
        Memory.DRAM: REGION_BYTES,
    }
    sizes: dict[str, int] = {}
    for extent in FORMATS[opcode].extents:
        values[extent.base] = 0
    for extent in FORMATS[opcode].extents:
        size = extent_end(extent, Instruction(opcode, values), config)
        if size is not None:
            sizes[extent.base] = max(size, sizes.get(extent.base, 0))
            if size > capacity[extent.memory]:
                return False
    for extent in FORMATS[opcode].extents:
        if extent.base in sizes:
            low, high = _bounds(extent.base, capacity[extent.memory])
            if low + sizes[extent.base] > high:
                return False
            last = high - sizes[extent.base]
            values[extent.base] = generator.choice((low, last, generator.randint(low, last)))
    instruction = Instruction(opcode, values)
    return illegal_field(instruction, config) is None and not overlaps_itself(instruction, config)


def _bounds(base: str, capacity: int) -> tuple[int, int]:
    """Keep results of POST away from weights and parameters, whose fetch does not wait for it."""
    shared = capacity * 3 // 4
    fetched = (shared, capacity)
    bounds = {"weight_addr": fetched, "param_addr": fetched, "dest_addr": (0, shared)}
    return bounds.get(base, (0, capacity))


def _transfer(
    generator: random.Random, config: Config, opcode: Opcode
) -> tuple[dict[str, int], int]:
    store = opcode is Opcode.STORE
    row_bytes = generator.choice((1, 3, config.bus_bytes, generator.randint(1, 700)))
    rows, planes = generator.choice(_SMALL), generator.choice(_SMALL)
    spread = 0 if store else generator.choice((0, 0, generator.randint(0, config.last_spread)))
    # Rows that overlap in the destination would be written in an order that is not promised.
    extent = ((row_bytes - 1) << spread) + 1
    row_step = extent + generator.choice((0, 0, 1, 13))
    if 1 < rows <= 1 << spread:
        row_step = generator.choice((row_step, 1))
    plane_step = (rows - 1) * row_step + extent + generator.choice((0, 0, 5))
    loose = generator.choice((0, row_bytes, row_bytes + 7))
    destination = "dram" if store else "spad"
    source = "spad" if store else "dram"
    values = {
        "region": generator.choice(WRITABLE_REGIONS if store else (Region.INPUT, Region.ARENA)),
        "fill": 0 if store else int(generator.random() < 0.2),
        "fill_value": generator.randrange(256),
        "spread": spread,
        "row_bytes": row_bytes,
        "rows": rows,
        "planes": planes,
        f"{destination}_row_step": row_step,
        f"{destination}_plane_step": plane_step,
        f"{source}_row_step": loose,
        f"{source}_plane_step": generator.choice((0, rows * loose, 31)),
    }
    return values, rows * planes * ((row_bytes << spread) // config.bus_bytes + 8)


def _exec(generator: random.Random, config: Config, _opcode: Opcode) -> tuple[dict[str, int], int]:
    rows, row_bytes = generator.randint(1, 12), generator.randint(1, 150)
    values = {
        "mode": generator.choice(config.mode_numbers),
        "accumulate": generator.randint(0, 1),
        "maximum": int(generator.random() < 0.2),
        "weights_fixed": int(generator.random() < 0.2),
        "input_rows": rows,
        "input_row_bytes": row_bytes,
        "input_pitch": row_bytes + generator.choice((0, 0, 1, 9)),
        "first_row": generator.randint(-3, rows),
        "first_byte": generator.randint(-20, row_bytes + 3),
        "pad_value": generator.randint(-128, 127),
        "width": generator.choice((1, 2, 3, 5, 8, 17)),
        "height": generator.choice(_SMALL),
        "x_step": generator.choice((0, 1, 3, config.rows, 65535)),
        "y_step": generator.choice((0, 1, 2, 255)),
        "kernel_rows": generator.choice(_SMALL),
        "kernel_row_step": generator.choice((0, 1, 2, 255)),
        "kernel_cols": generator.choice((1, 1, 2, 3)),
        "kernel_col_step": generator.choice((0, 2, config.rows, 65535)),
        "blocks": generator.choice((1, 1, 2, 4)),
        "oc_blocks": generator.choice((1, 2, 3)),
        "oc_step": generator.choice((0, config.columns, 65535)),
    }
    if values["mode"]:
        values["maximum"] = 0
    elif config.has_windows and generator.random() < 0.5:
        values |= _window(generator, values["width"])
        if config.has_paired_windows and generator.random() < 0.5:
            values |= _blocks(generator, config, row_bytes)
    elif config.has_paired_windows:
        values["paired"] = int(generator.random() < 0.1)
    tiles = 1
    for name in ("oc_blocks", "kernel_rows", "kernel_cols", "blocks"):
        tiles *= values[name]
    return values, tiles * max(values["width"] * values["height"], config.tile_load_cycles)


def _window(generator: random.Random, width: int) -> dict[str, int]:
    """Draw a sliding window: mostly one that makes outputs, and now and then any."""
    line = generator.choice((width, width, width + 1, generator.randint(0, 255)))
    return {
        "window": 1,
        "line": line,
        "first_output": generator.choice((0, 2, line + 1, 2 * line + 2, generator.randint(0, 60))),
        "out_width": generator.choice((width, max(width - 1, 0), generator.randint(0, 20))),
        "out_height": generator.choice((*_SMALL, 0)),
        "out_x_skip": generator.choice((0, 0, 1, 2, 3)),
        "out_y_skip": generator.choice((0, 0, 1, 2, 3)),
    }


def _blocks(generator: random.Random, config: Config, row_bytes: int) -> dict[str, int]:
    """Draw what makes a window one of blocks: mostly blocks that lie in their rows as a whole."""
    size = config.paired_bytes
    row_bytes = generator.choice((row_bytes, 2 * size, 3 * size, 5 * size - 1))
    return {
        "paired": 1,
        "x_step": generator.choice((size, size, 3)),
        "first_byte": generator.choice((0, 0, -size, -1, generator.randint(-20, 20))),
        "input_row_bytes": row_bytes,
        "input_pitch": row_bytes + generator.choice((0, 1, 9)),
    }


def _post(generator: random.Random, config: Config, _opcode: Opcode) -> tuple[dict[str, int], int]:
    width, height = generator.choice((1, 2, 5, 16)), generator.choice(_SMALL)
    blocks, tail = generator.choice((1, 2, 3)), generator.randint(1, config.columns)
    destination = generator.choice(tuple(Destination))
    table = generator.choice((*Table, Table.LOOK_UP)) if config.tables else Table.NONE
    if table == Table.FILL and destination == Destination.SPAD:
        # Only whole tables: what lies behind a vector's tail in the table is anything.
        width, height, blocks = 256 // config.table_row_bytes, 1, 1
        tail = generator.randint(config.table_row_bytes, config.columns)
    rule = {
        "rounding": generator.choice(config.roundings),
        "pre_shift": generator.choice((0, 0, 20, generator.randint(0, 31))),
    }
    if rule["rounding"] == Rounding.FLOAT:
        rule["pre_shift"] = generator.choice(config.post_formats)
    elif config.has_words:
        rule["words"] = generator.randint(0, 1)
    if rule.get("words"):
        # Such a POST has neither table nor product.
        table = Table.NONE
    size = post_element_bytes(rule)
    # Positions do not overlap: results would otherwise depend on their order.
    position = ((blocks - 1) * config.columns + tail) * size + generator.choice((0, 0, 3))
    pitch = width * position + generator.choice((0, 0, 11))
    low = generator.choice((-128, -128, generator.randint(-128, 127)))
    values = {
        "source": generator.choice(tuple(Source)),
        "destination": destination,
        **rule,
        "channel_bias": generator.randint(0, 1),
        # Noise in memory is no legal multiplier or shift: compiled layers cover this flag.
        "channel_scale": 0,
        "bias": generator.choice((0, generator.randint(-(2**31), 2**31 - 1))),
        "multiplier": generator.choice((0, 2**30, generator.randint(0, 2**31 - 1))),
        "shift": generator.choice((0, -5, generator.randint(-31, 30))),
        "output_zero": generator.randint(-128, 127),
        "clamp_low": low,
        "clamp_high": generator.choice((127, generator.randint(low, 127))),
        "width": width,
        "height": height,
        "oc_blocks": blocks,
        "tail": tail,
        "x_step": position,
        "source_pitch": pitch,
        "dest_pitch": pitch,
    }
    if config.has_narrow:
        values["pairs"] = generator.randint(0, 1)
    if config.has_words:
        values |= {side: generator.randrange(256) for side in ("low_byte", "high_byte")}
    if config.tables:
        values["table"] = table
    if config.products and not rule.get("words"):
        values["product"] = generator.randint(0, 1)
        values["factor_zero"] = generator.randint(-128, 127)
    return values, width * height * blocks * config.columns // config.lanes


def run_stream(driver: Driver, stream: Stream) -> dict[Region, bytes]:
    """Run a stream on a device and return the writable regions; raise as `Driver.run` does."""
    sizes = {region: len(contents) for region, contents in stream.regions.items()}
    driver.allocate({Region.PROGRAM: len(stream.commands), **sizes})
    driver.write_region(Region.PROGRAM, 0, stream.commands)
    for region, contents in stream.regions.items():
        driver.write_region(region, 0, contents)
    driver.run(0, len(stream.commands))
    return {region: driver.read_region(region, 0, sizes[region]) for region in WRITABLE_REGIONS}


def read_state(driver: Driver) -> bytes:
    """Return what the scratchpad and the accumulators hold, and leave them as they are.

    The scratchpad comes first, then four passes over the accumulators: their lowest byte, and
    thrice the next higher one, rounded by those below. Equal state gives equal bytes, and
    different accumulators give different ones.
    """
    config = driver.config
    size = config.acc_bytes // 4
    order = Order(config, {Region.OUTPUT: config.spad_bytes + 4 * size})
    order.append(Opcode.STORE, region=Region.OUTPUT, **_whole_scratchpad(config))
    target = config.spad_bytes
    for byte in range(4):
        for values in _whole_accumulators(config):
            order.append(
                Opcode.POST,
                source=Source.ACC,
                destination=Destination.SPAD,
                rounding=Rounding.SINGLE,
                pre_shift=24 - 8 * byte,
                multiplier=2**30,
                shift=-23,
                clamp_low=-128,
                clamp_high=127,
                **values,
            )
            count = values["width"] * values["height"] * config.columns
            order.append(
                Opcode.STORE,
                region=Region.OUTPUT,
                dram_offset=target,
                row_bytes=count,
                rows=1,
                planes=1,
            )
            target += count
    order.append(Opcode.LOAD, region=Region.OUTPUT, **_whole_scratchpad(config))
    return _run_order(driver, order, target)


def clear_state(driver: Driver) -> None:
    """Fill the scratchpad, the accumulators and the table with zeros."""
    order = Order(driver.config, {})
    order.append(Opcode.LOAD, fill=1, **_whole_scratchpad(driver.config))
    for values in _whole_accumulators(driver.config):
        order.append(Opcode.POST, source=Source.SPAD, destination=Destination.ACC_SET, **values)
    if driver.config.tables:
        order.append(Opcode.POST, **_fill_table(driver.config, 0))
    _run_order(driver, order, 0)


def _run_order(driver: Driver, order: Order, output_bytes: int) -> bytes:
    order.end()
    commands = b"".join(pack(instruction) for instruction in order.instructions)
    driver.allocate({Region.PROGRAM: len(commands), Region.OUTPUT: output_bytes})
    driver.write_region(Region.PROGRAM, 0, commands)
    driver.run(0, len(commands))
    return driver.read_region(Region.OUTPUT, 0, output_bytes)


def _whole_scratchpad(config: Config) -> dict[str, int]:
    """Return the fields of a transfer of every byte, in rows that the fields can count."""
    row_bytes = min(config.bank_bytes, 1 << 20)
    return {
        "row_bytes": row_bytes,
        "rows": config.spad_bytes // row_bytes,
        "planes": 1,
        "dram_row_step": row_bytes,
        "spad_row_step": row_bytes,
    }


def _whole_accumulators(config: Config) -> Iterator[dict[str, int]]:
    """Yield the fields of POSTs over every entry, in pieces that the scratchpad can hold."""
    count = config.acc_entries
    while count * config.columns > config.spad_bytes:
        count //= 2
    width = min(count, 2048)
    for first in range(0, config.acc_entries, count):
        yield {
            "acc_addr": first,
            "width": width,
            "height": count // width,
            "oc_blocks": 1,
            "tail": config.columns,
            "x_step": config.columns,
            "source_pitch": width * config.columns,
            "dest_pitch": width * config.columns,
        }
