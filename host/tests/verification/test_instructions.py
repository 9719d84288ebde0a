"""Coverage by field: random instructions reach all limits of the tables of the ISA."""

import functools
import random
from collections import defaultdict

import pytest

from matloom.arch.config import PRESETS, load_config
from matloom.arch.instruction import Instruction, extent_end, illegal_field
from matloom.arch.isa import (
    FORMATS,
    HEAD,
    UNITS,
    WRITABLE_REGIONS,
    AddressSpace,
    Opcode,
    Region,
    extents_of,
    fields_of,
)
from matloom.arch.numerics import Rounding
from matloom.device.open import open_device
from matloom.verification.instructions import AddressRanges, random_instruction
from matloom.verification.random_programs import clear_state, random_stream, random_streams
from support.configs import WIDEST, random_config

FLOAT = load_config("nano+rows=8+weight_rows=2+float_rows=2+bf16+fp16+fp8_e4m3+fp8_e5m2")
NARROW = load_config("nano+rows=12+weight_rows=4+i8xi4+i4xi4+i16xi8+tables=1+products=1")
CONFIGS = {"nano": PRESETS["nano"], "narrow": NARROW, "float": FLOAT}

#: Bytes of each region where it is not the field that shall limit.
LARGE, SMALL = 1 << 32, 6000


@functools.cache
def drawn(config, count, region_bytes, max_cycles):
    """Return `count` instructions of each unit; loaded data is at either end of the scratchpad."""
    generator = random.Random(0)
    size, regions = config.spad_bytes, dict.fromkeys(Region, region_bytes)
    spaces = [
        AddressRanges(config=config, regions=regions, fetched=fetched, results=results)
        for fetched, results in (
            ((0, size // 2), (size // 2, size)),
            ((size // 2, size), (0, size // 2)),
        )
    ]
    return {
        opcode: [
            random_instruction(generator, spaces[number % 2], opcode, max_cycles)
            for number in range(count)
        ]
        for opcode in UNITS
    }


def test_fields_reach_the_ends_of_their_bits():
    """With the largest memories, only its bits limit a field."""
    missed = []
    for opcode, instructions in drawn(WIDEST, 1500, LARGE, 1 << 23).items():
        for item in fields_of(opcode, WIDEST):
            seen = {values[item.name] for values in instructions}
            expected = item.allowed_values(WIDEST) or item.limits(WIDEST)
            if opcode is Opcode.STORE and item.name == "region":
                expected = WRITABLE_REGIONS
            if item.name in {extent.base for extent in FORMATS[opcode].extents}:
                # How far addresses may reach depends on sizes: see below.
                expected = (0,)
            missed += [
                (opcode.name, item.name, int(value)) for value in expected if value not in seen
            ]
    assert missed == []


def minimum(opcode, config, **flags):
    """Return the instruction that touches the fewest bytes."""
    smallest = {item.name: max(item.limits(config)[0], 0) for item in fields_of(opcode, config)}
    return {**smallest, **flags}


def capacity(extent, config):
    return {
        AddressSpace.SPAD: config.spad_bytes,
        AddressSpace.ACC: config.acc_entries,
        AddressSpace.DRAM: SMALL,
    }[extent.memory]


def legal(opcode, values, config):
    instruction = Instruction(opcode, values)
    ends = [
        (extent_end(extent, instruction, config), capacity(extent, config))
        for extent in extents_of(opcode, config)
    ]
    inside = all(end is None or end <= size for end, size in ends)
    return inside and illegal_field(instruction, config) is None


def largest_legal(opcode, name, config):
    """Return the largest legal count with everything else at its minimum."""
    flags = {Opcode.EXEC: {"weights_fixed": 1}, Opcode.LOAD: {"fill": 1}}.get(opcode, {})
    low, high = next(i for i in fields_of(opcode, config) if i.name == name).limits(config)
    while low < high:
        middle = (low + high + 1) // 2
        if legal(opcode, minimum(opcode, config, **{**flags, name: middle}), config):
            low = middle
        else:
            high = middle - 1
    return low


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CONFIGS)
def test_counts_reach_the_most_that_fits(name):
    """Half of the scratchpad holds loaded data, so tile counts reach half of it."""
    config = CONFIGS[name]
    counts = [
        (opcode, item.name)
        for opcode in UNITS
        for item in fields_of(opcode, config)
        if item.low == 1
    ]
    assert len(counts) > 15
    for opcode, field in counts:
        seen = max(values[field] for values in drawn(config, 1500, SMALL, 1 << 20)[opcode])
        most = largest_legal(opcode, field, config)
        assert seen >= most * 0.45, (opcode.name, field, seen, most)


def parts(opcode, values, config):
    """Yield base, first address and end of each extent that is not empty, and its memory's size."""
    instruction = Instruction(opcode, values)
    units = {
        AddressSpace.SPAD: config.bank_bytes,
        AddressSpace.ACC: config.acc_entries // 2,
        AddressSpace.DRAM: 4096,
    }
    for extent in extents_of(opcode, config):
        start, end = values[extent.base], extent_end(extent, instruction, config)
        if end is not None and end > start:
            yield extent.base, start, end, capacity(extent, config), units[extent.memory]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CONFIGS)
def test_addresses_are_first_last_and_across_banks_and_pages(name):
    config = CONFIGS[name]
    seen = defaultdict(set)
    for opcode, instructions in drawn(config, 1500, SMALL, 1 << 20).items():
        for values in instructions:
            for base, start, end, size, unit in parts(opcode, values, config):
                places = {
                    "first": start == 0,
                    "last": end == size,
                    "across": start // unit != (end - 1) // unit,
                    "before": end % unit == 0 and end < size,
                    "after": start % unit == 0 and start > 0,
                }
                seen[opcode, base] |= {place for place, there in places.items() if there}
    bases = {(opcode, e.base) for opcode in UNITS for e in FORMATS[opcode].extents}
    assert seen.keys() == bases
    for key, places in seen.items():
        assert places == {"first", "last", "across", "before", "after"}, key


def test_float_formats_of_post():
    posts = drawn(FLOAT, 700, SMALL, 1 << 20)[Opcode.POST]
    formats = {post["pre_shift"] for post in posts if post["rounding"] == Rounding.FLOAT}
    assert formats == set(FLOAT.post_formats)


@pytest.fixture(scope="module")
def streams():
    return list(random_streams(NARROW, 0, 50))


def test_heads_reach_their_ends_in_streams():
    """In long streams such as `random_streams`, waits use all their bits."""
    streams = [random_stream(number, NARROW, 800, max_cycles=64) for number in range(4)]
    for opcode in Opcode:
        found = [i for s in streams for i in s.instructions if i.opcode is opcode]
        for item in HEAD[1:]:
            seen = {getattr(instruction, item.name) for instruction in found}
            low, high = item.limits(NARROW)
            assert low in seen, (opcode, item.name)
            if opcode is not Opcode.END:
                assert high in seen, (opcode, item.name)


def test_ends_wait_and_mark(streams):
    ends = [stream.instructions[-1] for stream in streams]
    for item in HEAD[1:]:
        assert {bool(getattr(end, item.name)) for end in ends} == {False, True}, item.name


def test_parameters_of_channels_are_legal(streams):
    """A LOAD just before provides the channels' multipliers and shifts."""
    scaled = 0
    for stream in streams:
        for before, post in zip(stream.instructions, stream.instructions[1:], strict=False):
            if post.opcode is not Opcode.POST or not post.channel_scale:
                continue
            assert (before.opcode, before.region) == (Opcode.LOAD, Region.INPUT)
            assert before.spad_addr == post.param_addr
            columns, start = NARROW.columns, before.dram_offset
            block = columns * (5 + 4 * post.channel_bias)
            assert before.row_bytes == post.oc_blocks * block
            for first in range(start, start + before.row_bytes, block):
                scales = stream.regions[Region.INPUT][first : first + block][-5 * columns :]
                multipliers = memoryview(scales[: 4 * columns]).cast("i")
                shifts = memoryview(scales[4 * columns :]).cast("b")
                assert min(multipliers) >= 0
                assert all(-31 <= shift <= 30 for shift in shifts)
            scaled += 1
    assert scaled > 30


def test_configurations_are_of_every_kind():
    configs = [random_config(random.Random(number)) for number in range(600)]
    assert {config.rows for config in configs} == set(range(4, 33, 4))
    assert {config.columns for config in configs} == set(range(4, 33, 4))
    assert {config.bus_bits for config in configs} == {32, 64, 128}
    assert {1, 8} < {config.spad_banks for config in configs}
    assert min(config.spad_bytes for config in configs) == 16384
    for name in (
        "has_float",
        "has_narrow",
        "has_words",
        "tables",
        "products",
        "has_windows",
        "has_wide_windows",
        "maximum",
        "timestamps",
        "address_first",
        "softmax",
        "zero_points",
        "channel_tables",
        "transposed_weights",
        "has_curves",
        "has_word_products",
    ):
        assert {bool(getattr(config, name)) for config in configs} == {False, True}, name
    assert {config.counters for config in configs} == {0, 1, 2}
    assert {config.tables for config in configs} == {0, 1, 2}
    pairs = {
        config.has_paired_windows
        for config in configs
        if config.weight_rows == 4 and config.window_lines == 3
    }
    assert pairs == {0, 1}
    assert any(config.weight_rows == config.rows for config in configs)
    assert any(config.weight_rows == 1 < config.rows for config in configs)


@pytest.mark.parametrize("banks", [1, 2, 4])
def test_the_state_of_a_scratchpad_of_any_banks_is_cleared(banks):
    config = load_config(f"nano+spad_bytes=16384+spad_banks={banks}")
    driver = open_device("model", config)
    driver.transport.engine.spad[:] = 7
    clear_state(driver)
    assert not driver.transport.engine.spad.any()
