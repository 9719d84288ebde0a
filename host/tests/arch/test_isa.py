"""The instruction set: that the tables fit their bits, and extents."""

import dataclasses
import random

import pytest

from matloom.arch.config import PRESETS, Config
from matloom.arch.instruction import (
    Instruction,
    extent_end,
    illegal_field,
    pack,
)
from matloom.arch.isa import (
    FORMATS,
    AddressSpace,
    Opcode,
    Source,
    extents_of,
    fields_of,
    largest,
    post_element_bytes,
)
from matloom.arch.numerics import Rounding

CONFIG = PRESETS["small"]
NARROW = dataclasses.replace(CONFIG, mac_modes=("i8xi8", "i8xi4"))
FLOAT = dataclasses.replace(
    CONFIG, mac_modes=("i8xi8", "bf16", "fp16"), weight_rows=2, tables=1, products=1
)

#: Fields of EXEC that must not be zero.
_ONES = (
    *("input_rows", "input_row_bytes", "width", "height"),
    *("kernel_rows", "kernel_cols", "blocks", "oc_blocks"),
)


#: Fields whose place is kept for later engines.
RESERVED = {
    (Opcode.POST, "params_wait"): (364, 1),
    (Opcode.POST, "dest_block_step"): (365, 13),
}


@pytest.mark.parametrize("config", [*PRESETS.values(), FLOAT, NARROW])
@pytest.mark.parametrize(("opcode", "name"), RESERVED)
def test_reserved_fields_have_a_place_and_must_be_zero(opcode, name, config):
    first, bits = RESERVED[opcode, name]
    for value in (1, (1 << bits) - 1):
        data = pack(Instruction(opcode, {name: value}))
        assert int.from_bytes(data, "little") - opcode == value << first
        sentence = illegal_field(Instruction(opcode, {**legal(opcode), name: value}), config)
        assert sentence == f"{opcode.name}.{name} is reserved and must be 0, not {value}"
    assert not illegal_field(Instruction(opcode, legal(opcode)), config)


def legal(opcode):
    """Return values for an instruction's fields that must not be zero."""
    ones = _ONES if opcode is Opcode.EXEC else ("width", "height", "oc_blocks", "tail")
    return dict.fromkeys(ones, 1)


def test_bytes_are_added_multiplied_or_squared_in_place():
    adds, squares = (dataclasses.replace(CONFIG, products=value) for value in (2, 3))
    post = {**legal(Opcode.POST), "source": Source.SPAD, "addend": 1}
    data = int.from_bytes(pack(Instruction(Opcode.POST, {"addend": 3})), "little")
    assert data - Opcode.POST == 3 << 362
    assert not illegal_field(Instruction(Opcode.POST, post), adds)
    assert not illegal_field(Instruction(Opcode.POST, {**post, "addend": 2}), squares)
    for values, config, sentence in (
        ({}, CONFIG, "POST.addend must be 0 in a configuration without has_addends, not 1"),
        ({"product": 1}, adds, "POST.addend must be 0 with a product, not 1"),
        ({"addend": 2}, adds, "POST.addend must be one of 0, 1, not 2"),
        ({"addend": 2, "product": 1}, squares, "POST.addend must be 0 with a product, not 2"),
        ({"addend": 3}, squares, "POST.addend must be one of 0, 1, 2, not 3"),
    ):
        assert illegal_field(Instruction(Opcode.POST, post | values), config) == sentence


def test_bytes_are_added_to_results_where_this_is_built():
    sums = dataclasses.replace(Config(), result_sums=1)
    post = {**legal(Opcode.POST), "source": Source.SPAD, "addend": 3}
    assert not illegal_field(Instruction(Opcode.POST, post), sums)
    for values, config, sentence in (
        ({}, Config(), "POST.addend must be one of 0, 1, not 3"),
        ({"addend": 2}, sums, "POST.addend must be one of 0, 1, 3, not 2"),
        ({"source": 0}, sums, "POST.source must be 1 with addend 3, not 0"),
        ({"destination": 1}, sums, "POST.destination must be 0 with addend 3, not 1"),
        ({"table": 1}, sums, "POST.table must be 0 with addend 3, not 1"),
        ({"product": 1}, sums, "POST.addend must be 0 with a product, not 3"),
    ):
        assert illegal_field(Instruction(Opcode.POST, post | values), config) == sentence


def test_words_are_multiplied_where_this_is_built():
    modes = {"mac_modes": ("i8xi8", "i16xi8")}
    bytes_alone, words = (dataclasses.replace(CONFIG, products=each, **modes) for each in (3, 4))
    post = {**legal(Opcode.POST), "source": Source.SPAD, "words": 1, "product": 1}
    assert not illegal_field(Instruction(Opcode.POST, post), words)
    for values, config, sentence in (
        ({}, bytes_alone, "POST.product must be 0 with words, not 1"),
        ({"words": 0}, dataclasses.replace(CONFIG, products=4), None),
        ({"addend": 1}, words, "POST.addend must be 0 with a product, not 1"),
        ({"product": 0, "addend": 2}, words, "POST.addend must be 0 with words, not 2"),
    ):
        assert illegal_field(Instruction(Opcode.POST, post | values), config) == sentence


def test_curves_are_words_in_the_scratchpad():
    modes = {"mac_modes": ("i8xi8", "i16xi8")}
    has = dataclasses.replace(CONFIG, curves=1, tables=1, **modes)
    post = {**legal(Opcode.POST), "source": Source.SPAD, "words": 1, "curve": 2}
    data = int.from_bytes(pack(Instruction(Opcode.POST, {"curve": 3})), "little")
    assert data - Opcode.POST == 3 << 378
    for values, config, sentence in (
        ({}, has, None),
        ({"source": Source.ACC, "curve": 1}, has, None),
        ({"curve": 3}, has, "POST.curve must be one of 0, 1, 2, not 3"),
        ({"words": 0}, has, "POST.words must be 1 with a curve, not 0"),
        ({"destination": 1}, has, "POST.destination must be 0 with a curve, not 1"),
        ({"table": 1}, has, "POST.table must be 0 with words, not 1"),
        (
            {"words": 0},
            dataclasses.replace(CONFIG, curves=1),
            "POST.curve must be 0 in a configuration without has_curves, not 2",
        ),
        (
            {"words": 0, "rounding": Rounding.FLOAT, "pre_shift": 5},
            dataclasses.replace(FLOAT, curves=1, mac_modes=(*FLOAT.mac_modes, "i16xi8")),
            "POST.curve must be 0 under FLOAT, not 2",
        ),
    ):
        assert illegal_field(Instruction(Opcode.POST, post | values), config) == sentence


def test_softmax_is_of_rows_of_bytes():
    has = dataclasses.replace(
        CONFIG, softmax=1, tables=1, products=2, mac_modes=("i8xi8", "i16xi8")
    )
    post = {**legal(Opcode.POST), "source": Source.SPAD, "softmax": 1}
    data = int.from_bytes(pack(Instruction(Opcode.POST, {"softmax": 3})), "little")
    assert data - Opcode.POST == 3 << 381
    rows = {**post, "oc_blocks": 3, "height": 7}
    fill = {**post, "softmax": 2, "width": 5, "oc_blocks": 2}
    for values in (rows, fill):
        assert not illegal_field(Instruction(Opcode.POST, values), has)
    for values, config, sentence in (
        ({}, CONFIG, "POST.softmax must be 0 in a configuration without softmax, not 1"),
        ({"softmax": 3}, has, "POST.softmax must be one of 0, 1, 2, not 3"),
        ({"source": Source.ACC}, has, "POST.source must be 1 with softmax, not 0"),
        ({"destination": 2}, has, "POST.destination must be 0 with softmax, not 2"),
        ({"width": 2}, has, "POST.width must be 1 with softmax, not 2"),
        ({"softmax": 2, "table": 1}, has, "POST.table must be 0 with softmax, not 1"),
        ({"product": 1}, has, "POST.product must be 0 with softmax, not 1"),
        ({"addend": 1}, has, "POST.addend must be 0 with softmax, not 1"),
        ({"words": 1}, has, "POST.softmax must be 0 with words, not 1"),
        (
            {"rounding": Rounding.FLOAT, "pre_shift": 5},
            dataclasses.replace(FLOAT, softmax=1),
            "POST.softmax must be 0 under FLOAT, not 1",
        ),
    ):
        assert illegal_field(Instruction(Opcode.POST, post | values), config) == sentence


def test_reserved_bits_are_complete():
    found = {
        (opcode, item.name)
        for opcode, layout in FORMATS.items()
        for item in layout.fields
        if item.needs == "reserved"
    }
    assert found == set(RESERVED)


@pytest.mark.parametrize("opcode", Opcode)
def test_formats_fit_and_names_differ(opcode):
    layout = FORMATS[opcode]
    names = [item.name for item in layout.all_fields]
    assert layout.used_bits <= layout.bits
    assert len(set(names)) == len(names)


def test_fields_are_contiguous():
    """Setting one field changes its own bits and no others."""
    for opcode, layout in FORMATS.items():
        plain, position = int.from_bytes(pack(Instruction(opcode)), "little"), 0
        for item in layout.all_fields:
            if item.name != "opcode":
                value = -1 if item.signed else item.range[1]
                word = int.from_bytes(pack(Instruction(opcode, {item.name: value})), "little")
                assert word ^ plain == ((1 << item.bits) - 1) << position, item.name
            position += item.bits


def _some_value(item, config, generator):
    choices = item.allowed_values(config)
    return generator.choice(choices) if choices else generator.randint(*item.limits(config))


@pytest.mark.parametrize("name", PRESETS)
def test_extents_without_absent_fields_are_the_same(seed, name):
    config, generator = PRESETS[name], random.Random(seed)
    for opcode, layout in FORMATS.items():
        for _number in range(50):
            values = {
                item.name: _some_value(item, config, generator)
                for item in fields_of(opcode, config)
            }
            if "mode" in values:
                values["mode"] = generator.choice(config.mode_numbers)
            instruction = Instruction(opcode, values)
            ends = [extent_end(extent, instruction, config) for extent in layout.extents]
            fewer = extents_of(opcode, config)
            found = [extent_end(extent, instruction, config) for extent in fewer]
            applied = [end for end in ends if end is not None]
            assert [end for end in found if end is not None] == applied


def test_extents_of_a_load():
    values = {"spad_addr": 100, "dram_offset": 5, "row_bytes": 7, "rows": 3, "planes": 2}
    values |= {"spad_row_step": 10, "spad_plane_step": 50, "dram_row_step": 7}
    spad, *_spread, dram = FORMATS[Opcode.LOAD].extents
    load = Instruction(Opcode.LOAD, values)
    assert extent_end(spad, load, CONFIG) == 100 + 2 * 10 + 50 + 7
    assert extent_end(dram, load, CONFIG) == 5 + 2 * 7 + 7
    assert extent_end(dram, Instruction(Opcode.LOAD, {**values, "fill": 1}), CONFIG) is None


@pytest.mark.parametrize("spread", [0, 1, 2, 3])
def test_one_extent_for_each_spread_of_a_load(spread):
    values = {"spad_addr": 100, "row_bytes": 7, "rows": 3, "planes": 2, "spread": spread}
    load = Instruction(Opcode.LOAD, {**values, "spad_row_step": 80, "spad_plane_step": 1})
    *spad, _dram = FORMATS[Opcode.LOAD].extents
    ends = [extent_end(extent, load, CONFIG) for extent in spad]
    last = 100 + 2 * 80 + 1 + 6 * 2**spread
    assert [end for end in ends if end is not None] == [last + 1]


@pytest.mark.parametrize(("window", "end"), [(0, 10 + 3 * 4 * 5), (1, 10 + 3 * 2 * 7)])
def test_output_blocks_do_not_share_entries(window, end):
    """Windows keep `out_height * out_width` sums of each block, other EXECs all positions."""
    values = {**dict.fromkeys(_ONES, 1), "oc_blocks": 3, "height": 4, "width": 5, "acc_addr": 10}
    values |= {"window": window, "out_height": 2, "out_width": 7}
    extents = [each for each in FORMATS[Opcode.EXEC].extents if each.memory is AddressSpace.ACC]
    found = [extent_end(each, Instruction(Opcode.EXEC, values), CONFIG) for each in extents]
    assert [each for each in found if each is not None] == [end]


def test_a_pair_of_entries_counts_twice():
    values = {**dict.fromkeys(_ONES, 1), "oc_blocks": 3, "width": 5, "acc_addr": 10}
    extents = [each for each in FORMATS[Opcode.EXEC].extents if each.memory is AddressSpace.ACC]
    ends = {}
    for mode in range(4):
        each = Instruction(Opcode.EXEC, {**values, "mode": mode})
        found = [extent_end(extent, each, CONFIG) for extent in extents]
        ends[mode] = [end for end in found if end is not None]
    wide, narrow = [10 + 15], [CONFIG.acc_entries // 2 + 10 + 15]
    assert ends == {0: wide, 1: narrow, 2: narrow, 3: wide}


def test_extents_of_a_configuration_have_no_condition_that_always_holds():
    plain = extents_of(Opcode.EXEC, CONFIG)
    assert not any(name == "mode" for extent in plain for name, _values in extent.only)
    conditions = [dict(extent.only).get("mode") for extent in extents_of(Opcode.EXEC, NARROW)]
    assert [each for each in conditions if each] == [(0,), (1,)]
    assert len(plain) == len(conditions) - 1
    every = dataclasses.replace(Config(), mac_modes=("i8xi8", "i8xi4"), products=3, softmax=1)
    every = dataclasses.replace(every, pooling=1, result_sums=1)
    integers = [
        dataclasses.replace(
            extent, only=tuple(item for item in extent.only if item[0] not in ("rounding", "words"))
        )
        for extent in FORMATS[Opcode.POST].extents
        if "pre_shift" not in dict(extent.only) and dict(extent.only).get("words") != (1,)
    ]
    assert list(extents_of(Opcode.POST, every)) == integers
    without = extents_of(Opcode.POST, dataclasses.replace(Config(), tables=0, products=0))
    assert len(without) == len(integers) - 7
    assert {name for extent in without for name, _values in extent.only} == {
        "source",
        "destination",
    }
    # Elements of one byte, two and four; no format of a byte is built.
    sizes = [len(e.terms[-1]) for e in extents_of(Opcode.POST, FLOAT) if e.base == "dest_addr"]
    assert sizes == [1, 2, 2]


def test_elements_of_post():
    """Formats with the rule FLOAT: their extents, and illegal combinations."""

    def make(**values):
        ones = dict.fromkeys(("width", "height", "oc_blocks", "tail"), 1)
        given = {"source": Source.SPAD, "rounding": Rounding.FLOAT, "pre_shift": 4, **values}
        return Instruction(Opcode.POST, {**ones, **given})

    assert illegal_field(make(), FLOAT) is None
    for number, size in ((0, 1), (4, 2), (5, 2), (6, 1), (7, 1), (8, 4)):
        rule = Rounding.FLOAT if number else Rounding.DOUBLE
        values = {"rounding": rule, "pre_shift": number}
        assert post_element_bytes(values) == size
    for number in (0, 1, 31):
        with pytest.raises(ValueError, match=f"must be the number of a format .*, not {number}$"):
            post_element_bytes({"rounding": Rounding.FLOAT, "pre_shift": number})
    found = illegal_field(make(pre_shift=6), FLOAT)
    assert found == "POST.pre_shift must be one of 4, 5, 8, not 6"
    assert illegal_field(make(table=1), FLOAT) == "POST.table must be 0 under FLOAT, not 1"
    assert illegal_field(make(), CONFIG) == "POST.rounding must be one of 0, 1, 4, not 5"


def test_words_of_post():
    """16-bit elements on both sides, combined with bytes and floating-point formats."""
    config = dataclasses.replace(Config(), mac_modes=("i8xi8", "i16xi8", "fp16"))
    ones = dict.fromkeys(("width", "height", "oc_blocks", "tail", "words"), 1)

    def make(**values):
        return Instruction(Opcode.POST, {**ones, "source": Source.SPAD, **values})

    assert post_element_bytes(make().values) == 2
    assert illegal_field(make(low_byte=255, high_byte=255), config) is None
    for name in ("table", "product"):
        found = illegal_field(make(**{name: 1}), config)
        assert found == f"POST.{name} must be 0 with words, not 1"
    found = illegal_field(make(rounding=Rounding.FLOAT, pre_shift=5), config)
    assert found == "POST.words must be 0 under FLOAT, not 1"
    found = illegal_field(make(), CONFIG)
    assert found == "POST.words must be 0 in a configuration without has_words, not 1"
    # Three blocks of sixteen and a tail of four: 36 elements from byte 100 on.
    values = {"oc_blocks": 3, "tail": 4, "dest_addr": 100, "source_addr": 100}
    for words, end in ((0, 136), (1, 172)):
        post = make(**values, words=words)
        ends = [
            extent_end(extent, post, config)
            for extent in extents_of(Opcode.POST, config)
            if extent.base in ("dest_addr", "source_addr")
        ]
        assert [each for each in ends if each is not None] == [end, end]


@pytest.mark.parametrize(("blocks", "pairs"), [(1, 1), (2, 1), (3, 2), (6, 3)])
def test_blocks_of_pairs_are_counted_by_two(blocks, pairs):
    values = {"oc_blocks": blocks, "height": 5, "width": 7, "acc_addr": 10, "pairs": 1}
    post = Instruction(Opcode.POST, values)
    ends = [
        extent_end(extent, post, NARROW)
        for extent in FORMATS[Opcode.POST].extents
        if extent.memory is AddressSpace.ACC and not extent.write
    ]
    assert [end for end in ends if end] == [NARROW.acc_entries // 2 + 10 + 35 * pairs]
    assert illegal_field(Instruction(Opcode.POST, {**values, "tail": 1}), NARROW) is None
    problem = illegal_field(Instruction(Opcode.POST, {**values, "tail": 1}), CONFIG)
    assert problem == "POST.pairs must be 0 in a configuration without has_narrow, not 1"


def test_the_largest_value_of_a_field_fits_its_bits():
    """As on the page of instructions: 12 bits of rows, 20 of a pitch, 22 signed ones."""
    assert largest(Opcode.EXEC, "input_rows") == 4095
    assert largest(Opcode.POST, "dest_pitch") == 1048575
    assert largest(Opcode.EXEC, "first_byte") == 2097151
    assert largest(Opcode.LOAD, "wait_exec") == 63
    with pytest.raises(KeyError):
        largest(Opcode.LOAD, "kernel_rows")
