"""Random field values for each opcode: mostly small, and consistent with each other."""

import random
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from matloom.arch.config import Config
from matloom.arch.curves import Curve
from matloom.arch.isa import (
    BLOCK_STEPS,
    BYTES_ONLY,
    FILLS,
    REQUIRED_WITH_CURVE,
    REQUIRED_WITH_POOL,
    REQUIRED_WITH_RESULT,
    REQUIRED_WITH_ROWS,
    REQUIRED_WITH_SOFTMAX,
    WRITABLE_REGIONS,
    Addend,
    Destination,
    Opcode,
    Region,
    RowFunction,
    Source,
    Table,
    byte_only_fields,
    post_element_bytes,
    post_vector_count,
)
from matloom.arch.numerics import Rounding
from matloom.arch.softmax import EXPONENTIAL_BYTES, EXPONENTIALS
from matloom.arch.softmax_cycles import softmax_cycles
from matloom.verification.fields import body_fields

_SMALL_COUNTS = (1, 1, 2, 3, 4, 7)

#: Fields that only have an effect if a flag is set, by the name of the flag.
_FIELDS_OF_FLAG = {
    "window": ("line", "first_output", "out_width", "out_height", "out_x_skip", "out_y_skip"),
    "fill": ("fill_value",),
    "words": ("low_byte", "high_byte"),
    "product": ("factor_zero",),
}


def draw_fields(generator: random.Random, config: Config, opcode: Opcode) -> dict[str, int]:
    """Return random fields of an instruction, except addresses and some distances.

    They may contradict each other until `settle` makes them consistent.
    """
    if opcode is Opcode.EXEC:
        return _draw_exec(generator, config)
    if opcode is Opcode.POST:
        return _draw_post(generator, config)
    return _draw_transfer(generator, config, opcode)


def settle(
    generator: random.Random,
    config: Config,
    opcode: Opcode,
    values: dict[str, int],
    pinned: AbstractSet[str],
) -> None:
    """Make the drawn fields of an instruction consistent in place; change `pinned` ones last.

    Fields in `pinned` only change if no change of other fields helps. Afterwards, an instruction
    writes each byte only once, because the order of its writes is not specified.
    """
    for flag, names in _FIELDS_OF_FLAG.items():
        if flag in values and flag not in pinned and not pinned.isdisjoint(names):
            values[flag] = 1
    if opcode is Opcode.EXEC:
        _settle_exec(generator, config, values, pinned)
    elif opcode is Opcode.POST:
        _settle_post(generator, config, values, pinned)
    else:
        _settle_transfer(generator, config, opcode, values, pinned)


def table_bytes(values: dict[str, int], config: Config) -> int:
    """Return the total size in bytes of the tables that a POST with these fields fills."""
    if values.get("softmax"):
        return EXPONENTIALS * EXPONENTIAL_BYTES
    return 256 * (config.lanes if values.get("table") == Table.FILL_EACH else 1)


def estimated_cycles(config: Config, opcode: Opcode, values: dict[str, int]) -> int:
    """Return roughly how many cycles an instruction with these fields takes."""
    if opcode is Opcode.EXEC:
        tiles = 1
        for name in ("oc_blocks", "kernel_rows", "kernel_cols", "blocks"):
            tiles *= values[name]
        return tiles * max(
            values["width"] * values["height"], config.tile_load_cycles, config.acc_update_latency
        )
    if opcode is Opcode.POST:
        vectors = post_vector_count(values) * values["oc_blocks"]
        return max(softmax_cycles(values, config), vectors * config.columns // config.lanes)
    row = (values["row_bytes"] << values["spread"]) // config.bus_bytes
    return values["rows"] * values["planes"] * (row + 8)


def _draw_transfer(generator: random.Random, config: Config, opcode: Opcode) -> dict[str, int]:
    """Return random fields of a LOAD or STORE."""
    store = opcode is Opcode.STORE
    return {
        "region": generator.choice(WRITABLE_REGIONS if store else tuple(Region)),
        "fill": 0 if store else int(generator.random() < 0.2),
        "fill_value": generator.randrange(256),
        "spread": 0 if store else generator.choice((0, 0, generator.randint(0, 3))),
        "row_bytes": generator.choice((1, 3, config.bus_bytes, generator.randint(1, 700))),
        "rows": generator.choice(_SMALL_COUNTS),
        "planes": generator.choice(_SMALL_COUNTS),
    }


def _settle_transfer(
    generator: random.Random,
    config: Config,
    opcode: Opcode,
    values: dict[str, int],
    pinned: AbstractSet[str],
) -> None:
    """Make fields of a LOAD or STORE consistent in place; change `pinned` ones last."""
    values["spread"] = min(values["spread"], config.last_spread)
    target, source = ("dram", "spad") if opcode is Opcode.STORE else ("spad", "dram")
    extent = ((values["row_bytes"] - 1) << values["spread"]) + 1
    row, plane = f"{target}_row_step", f"{target}_plane_step"
    if row not in pinned:
        values[row] = extent + generator.choice((0, 0, 1, 13))
        if 1 < values["rows"] <= 1 << values["spread"]:
            values[row] = generator.choice((values[row], 1))
    if plane not in pinned:
        span = (values["rows"] - 1) * values[row] + extent
        values[plane] = span + generator.choice((0, 0, 5))
        if row not in pinned and values["rows"] > 1 and generator.random() < 0.1:
            # The rows of a plane lie between those of another.
            values[plane] = extent
            values[row] = (values["planes"] - 1) * extent + extent + generator.choice((0, 2))
    _write_once(values, "rows", row, "planes", plane, extent, 1 << values["spread"])
    loose = generator.choice((0, values["row_bytes"], values["row_bytes"] + 7))
    steps = {
        f"{source}_row_step": loose,
        f"{source}_plane_step": generator.choice((0, values["rows"] * loose, 31)),
    }
    values |= {name: value for name, value in steps.items() if name not in pinned}


def _write_once(
    values: dict[str, int],
    inner: str,
    inner_step: str,
    outer: str,
    outer_step: str,
    extent: int,
    byte_distance: int = 1,
) -> None:
    """Set counts of written rows to 1, in place, if rows of `extent` bytes would overlap.

    `inner` and `outer` are the fields with the counts of two nested loops over rows; `inner_step`
    and `outer_step` are those with the distances of rows. Within a row, written bytes are
    `byte_distance` apart, so rows may also interleave.
    """

    def separate(count: str, step: str, size: int) -> bool:
        """Return whether the parts of `size` bytes that this count and step place never overlap."""
        between = size == extent and values[step] == 1 and values[count] <= byte_distance
        return values[count] == 1 or values[step] >= size or between

    def span(count: str, step: str) -> int:
        """Return the bytes from the first to the last written by this count and step."""
        return (values[count] - 1) * values[step] + extent

    if separate(inner, inner_step, extent):
        if separate(outer, outer_step, span(inner, inner_step)):
            return
        dense = separate(outer, outer_step, extent)
        if dense and separate(inner, inner_step, span(outer, outer_step)):
            return
        values[outer] = 1
        return
    values[inner] = 1
    if not separate(outer, outer_step, extent):
        values[outer] = 1


def _draw_exec(generator: random.Random, config: Config) -> dict[str, int]:
    """Return random fields of an EXEC."""
    rows = generator.choice((generator.randint(1, 12), generator.randint(1, 12), 40))
    row_bytes = generator.choice((generator.randint(1, 150), generator.randint(1, 600)))
    values = {
        "mode": generator.choice((0, generator.choice(config.mode_numbers))),
        "accumulate": generator.randint(0, 1),
        "maximum": config.maximum * int(generator.random() < 0.2),
        "weights_fixed": int(generator.random() < 0.2),
        "weights_wait_post": int(generator.random() < 0.2),
        "input_rows": rows,
        "input_row_bytes": row_bytes,
        "first_row": generator.randint(-3, rows),
        "first_byte": generator.randint(-20, row_bytes + 3),
        "pad_value": generator.randint(-128, 127),
        "width": generator.choice((1, 2, 3, 5, 8, 17)),
        "height": generator.choice(_SMALL_COUNTS),
        "x_step": generator.choice((0, 1, 3, config.rows, 65535)),
        "y_step": generator.choice((0, 1, 2, 255)),
        "kernel_rows": generator.choice(_SMALL_COUNTS),
        "kernel_row_step": generator.choice((0, 1, 2, 255)),
        "kernel_cols": generator.choice((1, 1, 2, 3)),
        "kernel_col_step": generator.choice((0, 2, config.rows, 65535)),
        "blocks": generator.choice((1, 1, 2, 4)),
        "oc_blocks": generator.choice((1, 2, 3)),
        "oc_step": generator.choice((0, config.columns, 65535)),
        **dict.fromkeys(_FIELDS_OF_FLAG["window"], 0),
    }
    if generator.random() < 0.3:
        values |= _draw_channels(generator, config)
    values["window"] = config.has_windows * generator.randint(0, 1)
    values |= _draw_window(generator, values["width"])
    if config.has_paired_windows:
        values["paired"] = int(generator.random() < (0.5 if values["window"] else 0.1))
        if values["window"] and values["paired"]:
            values |= _draw_paired_window(generator, config, row_bytes)
    if config.has_wide_windows:
        values["window_shape"] = generator.randrange(len(config.window_shapes))
    return values | _draw_product_flags(generator, config)


def _draw_product_flags(generator: random.Random, config: Config) -> dict[str, int]:
    """Return random flags for EXECs of two computed operands: those that a configuration has."""
    built = {
        "zero_points": config.zero_points,
        "weights_transposed": config.transposed_weights,
    }
    return {name: generator.randint(0, 1) for name, there in built.items() if there}


def _draw_channels(generator: random.Random, config: Config) -> dict[str, int]:
    """Return random fields with which EXEC reads only a part of each position's channels."""
    count = generator.choice((config.rows, 2 * config.rows, generator.randint(1, 80)))
    positions = generator.choice((1, 2, 5))
    return {
        "input_row_bytes": count * positions,
        "first_byte": count * generator.randint(-1, positions) + generator.randint(0, count - 1),
        "x_step": count,
        "kernel_col_step": generator.choice((count, 2 * count, 2 * count, count + 1)),
        "oc_step": generator.choice((0, 0, config.columns, config.rows)),
    }


def _draw_window(generator: random.Random, width: int) -> dict[str, int]:
    """Return random fields of a sliding window, most often of one that has outputs."""
    line = generator.choice((width, width, width + 1, generator.randint(0, 255)))
    return {
        "line": line,
        "first_output": generator.choice((0, 2, line + 1, 2 * line + 2, generator.randint(0, 60))),
        "out_width": generator.choice((width, max(width - 1, 0), generator.randint(0, 20))),
        "out_height": generator.choice((*_SMALL_COUNTS, 0)),
        "out_x_skip": generator.choice((0, 0, 1, 2, 3)),
        "out_y_skip": generator.choice((0, 0, 1, 2, 3)),
    }


def _draw_paired_window(generator: random.Random, config: Config, row_bytes: int) -> dict[str, int]:
    """Return random fields for the input of a stride-2 window, most often of whole 2x2 blocks."""
    size = config.paired_bytes
    return {
        "x_step": generator.choice((size, size, 3)),
        "first_byte": size * generator.choice((0, 0, -1, generator.randint(-3, 3))),
        "input_row_bytes": generator.choice((row_bytes, 2 * size, 3 * size, 5 * size - 1)),
    }


def _settle_exec(
    generator: random.Random, config: Config, values: dict[str, int], pinned: AbstractSet[str]
) -> None:
    """Make fields of an EXEC consistent in place; change `pinned` ones last."""
    plain = [name for name, item in body_fields(Opcode.EXEC, config).items() if item.plain]
    if values["mode"] and not pinned.isdisjoint(plain):
        values["mode"] = 0
    if values["mode"]:
        values |= dict.fromkeys(plain, 0)
    if not config.has_windows:
        values["window"] = 0
    if "input_pitch" not in pinned:
        loose = generator.choice((0, 0, 1, 9, -values["input_row_bytes"]))
        values["input_pitch"] = values["input_row_bytes"] + loose
    if values["window"] and values.get("paired"):
        unit = config.weight_boundary
        values |= {name: values[name] // unit * unit for name in BLOCK_STEPS if name in values}
        values["blocks"] = 1


def _draw_post(generator: random.Random, config: Config) -> dict[str, int]:
    """Return random fields of a POST."""
    low = generator.choice((-128, -128, generator.randint(-128, 127)))
    values = {
        "source": generator.choice(tuple(Source)),
        "destination": generator.choice(tuple(Destination)),
        "rounding": generator.choice(config.roundings),
        "pre_shift": generator.choice((0, 0, 20, generator.randint(0, 31))),
        "channel_bias": generator.randint(0, 1),
        "channel_scale": int(generator.random() < 0.3),
        "bias": generator.choice((0, generator.randint(-(2**31), 2**31 - 1))),
        "multiplier": generator.choice((0, 2**30, generator.randint(0, 2**31 - 1))),
        "shift": generator.choice((0, -5, generator.randint(-31, 30))),
        "output_zero": generator.randint(-128, 127),
        "clamp_low": low,
        "clamp_high": generator.choice((127, generator.randint(low, 127))),
        "width": generator.choice((1, 2, 5, 16, 40)),
        "height": generator.choice(_SMALL_COUNTS),
        "oc_blocks": generator.choice((1, 2, 3, 5)),
        "tail": generator.randint(1, config.columns),
    }
    return values | _draw_post_functions(generator, config)


def _draw_post_functions(generator: random.Random, config: Config) -> dict[str, int]:
    """Return random values of those optional fields of a POST that a configuration has."""
    values: dict[str, int] = {}
    if config.has_narrow:
        values["pairs"] = generator.randint(0, 1)
    if config.has_words:
        values["words"] = generator.randint(0, 1)
        values |= {side: generator.randrange(256) for side in _FIELDS_OF_FLAG["words"]}
    if config.tables:
        values["table"] = generator.choice((*config.table_uses, Table.LOOK_UP))
    if config.products:
        values["product"] = generator.randint(0, 1)
        values["factor_zero"] = generator.randint(-128, 127)
    if config.has_addends:
        values["addend"] = int(not values["product"] and generator.random() < 0.5)
    if config.has_squares:
        values["addend"] *= generator.choice((Addend.ADD, Addend.SQUARE))
    if config.has_result_sums and values["addend"]:
        values["addend"] = generator.choice((values["addend"], Addend.RESULT))
    if config.softmax:
        values["softmax"] = generator.choice((RowFunction.NONE, *RowFunction))
    if config.has_curves:
        values["curve"] = generator.choice(tuple(Curve))
    if config.pooling:
        values["pool"] = generator.randint(0, 1)
    return values


def _settle_post(
    generator: random.Random, config: Config, values: dict[str, int], pinned: AbstractSet[str]
) -> None:
    """Make fields of a POST consistent in place; change `pinned` ones last."""
    if values["rounding"] == Rounding.FLOAT:
        if values["pre_shift"] not in config.post_formats:
            values["pre_shift"] = generator.choice(config.post_formats)
        values |= {name: 0 for name in ("words", "curve", *BYTES_ONLY) if name in values}
    _settle_field(values, pinned, "curve", REQUIRED_WITH_CURVE)
    if values.get("words"):
        values |= {name: 0 for name in byte_only_fields(config) if name in values}
    if values.get("product") and values.get("addend"):
        values["product" if "addend" in pinned else "addend"] = 0
    _settle_softmax(values, pinned)
    _settle_field(values, pinned, "pool", REQUIRED_WITH_POOL)
    if values.get("addend") == Addend.RESULT:
        _settle_field(values, pinned, "addend", REQUIRED_WITH_RESULT)
    fills = values.get("table") in FILLS or values.get("softmax") == RowFunction.FILL
    if values["destination"] == Destination.SPAD and fills:
        _settle_filling(generator, config, values)
    position = (values["oc_blocks"] - 1) * config.columns + values["tail"]
    position *= post_element_bytes(values)
    writes = values["destination"] == Destination.SPAD and not fills
    row_slack = generator.choice((0, 0, 11))
    if "x_step" not in pinned:
        apart = writes or generator.random() < 0.8
        values["x_step"] = position + generator.choice((0, 0, 3)) if apart else 1
    row = (values["width"] - 1) * values["x_step"] + position
    for side in ("source_pitch", "dest_pitch"):
        if side not in pinned:
            values[side] = row + row_slack + generator.choice((0, 0, 0, 5))
    if pinned.isdisjoint(("x_step", "dest_pitch")) and generator.random() < 0.1:
        # The positions of a row lie between those of another.
        values["dest_pitch"] = position
        values["x_step"] = (values["height"] - 1) * position + position
    for name in ("x_step", "source_pitch", "dest_pitch"):
        # A result that is too small for its field lowers the count below.
        values[name] = min(values[name], body_fields(Opcode.POST, config)[name].range[1])
    if writes:
        _write_once(values, "width", "x_step", "height", "dest_pitch", position)


def _settle_softmax(values: dict[str, int], pinned: AbstractSet[str]) -> None:
    """Make `softmax` and the fields that it requires consistent, in place.

    If `softmax` is pinned, the other fields change. Otherwise, and with rounding FLOAT, it becomes
    0 unless the fields agree.
    """
    rules = {name: value for name, value in REQUIRED_WITH_SOFTMAX.items() if name in values}
    if values.get("softmax") == RowFunction.SOFTMAX:
        rules |= REQUIRED_WITH_ROWS
    if not values.get("softmax"):
        return
    floating = values["rounding"] == Rounding.FLOAT
    rules |= {"words": 0} if "words" in values else {}
    if "softmax" in pinned and not floating:
        values |= rules
    elif floating or any(values[name] != value for name, value in rules.items()):
        values["softmax"] = 0


def _settle_field(
    values: dict[str, int], pinned: AbstractSet[str], name: str, required: Mapping[str, int]
) -> None:
    """Make field `name` and the values in `required` that it requires consistent, in place.

    If field `name` is pinned, the other fields change; otherwise, it becomes 0 if they differ from
    the values required.
    """
    rules = {other: value for other, value in required.items() if other in values}
    if not values.get(name) or name in pinned:
        values |= rules if values.get(name) else {}
    elif any(values[other] != value for other, value in rules.items()):
        values[name] = 0


def _settle_filling(generator: random.Random, config: Config, values: dict[str, int]) -> None:
    """Change the size of a POST that fills tables, in place, so that it fills them completely.

    `tail`, the channels in the last block, covers a whole row of a table, because a shorter one
    would write arbitrary entries.
    """
    vectors = table_bytes(values, config) // config.table_row_bytes
    even = vectors & -vectors
    width = 1 << generator.randrange(even.bit_length())
    height = 1 << generator.randrange((even // width).bit_length())
    values |= {"width": width, "height": height, "oc_blocks": vectors // width // height}
    values["tail"] = generator.randint(config.table_row_bytes, config.columns)
