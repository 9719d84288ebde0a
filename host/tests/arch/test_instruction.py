"""Instructions: packing, and which are legal."""

import dataclasses
import random

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction, IsaError, illegal_field, pack, unpack
from matloom.arch.isa import (
    FORMATS,
    INSTRUCTION_WORD_BYTES,
    Opcode,
    fields_of,
)
from matloom.program.instruction_table import unpack_all

CONFIG = PRESETS["small"]
NARROW = dataclasses.replace(CONFIG, mac_modes=("i8xi8", "i8xi4"))

#: Fields of EXEC that must not be zero.
_ONES = (
    *("input_rows", "input_row_bytes", "width", "height"),
    *("kernel_rows", "kernel_cols", "blocks", "oc_blocks"),
)


@pytest.mark.parametrize("opcode", Opcode)
def test_round_trip(seed, opcode):
    generator = random.Random(seed)
    for _number in range(100):
        values = {
            item.name: generator.choice((*item.range, generator.randint(*item.range)))
            for item in FORMATS[opcode].all_fields
            if item.name != "opcode"
        }
        data = pack(Instruction(opcode, values))
        assert len(data) == FORMATS[opcode].instruction_words * INSTRUCTION_WORD_BYTES
        found, end = unpack(b"\xff" * 3 + data, 3)
        assert (found.opcode, found.values, end) == (opcode, values, 3 + len(data))
        assert hash(found) == hash(Instruction(opcode, values))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: pack(Instruction(Opcode.LOAD, {"row": 1})), "LOAD has no field 'row'"),
        (lambda: pack(Instruction(Opcode.LOAD, {"rows": 4096})), "LOAD.rows must be 0 to 4095"),
        (lambda: unpack(bytes([9]) + bytes(15)), "opcode must be one of .*, not 9"),
        (lambda: unpack(b""), "must start inside the 0 bytes, not at 0"),
        (lambda: unpack(pack(Instruction(Opcode.EXEC))[:40]), "must end by byte 40, not 48"),
        (lambda: unpack(bytes(15) + b"\x80"), "reserved bits of END at 0 must be zero"),
    ],
)
def test_errors(make, sentence):
    with pytest.raises(IsaError, match=sentence):
        make()


def test_a_buffer_ends_with_its_first_end():
    opcodes = [Opcode.LOAD, Opcode.EXEC, Opcode.END]
    data = b"".join(pack(Instruction(opcode)) for opcode in opcodes)
    assert [each.opcode for each in unpack_all(data + data)] == opcodes
    with pytest.raises(IsaError, match="must start inside the 80 bytes, not at 80"):
        list(unpack_all(data[:-INSTRUCTION_WORD_BYTES]))


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="END has no field 'rows'"):
        _ = Instruction(Opcode.END).rows


@pytest.mark.parametrize(
    ("opcode", "values", "sentence"),
    [
        (Opcode.LOAD, {"row_bytes": 0, "rows": 1, "planes": 1}, "LOAD.row_bytes must be 1 to"),
        (
            Opcode.STORE,
            {"fill": 1, "row_bytes": 1, "rows": 1, "planes": 1},
            "STORE.fill must be one of 0, not 1",
        ),
        (
            Opcode.STORE,
            {"spread": 1, "row_bytes": 1, "rows": 1, "planes": 1},
            "STORE.spread must be one of 0, not 1",
        ),
        (Opcode.END, {"timestamp": 64}, "END.timestamp must be 0 to 63, not 64"),
    ],
)
def test_illegal_fields(opcode, values, sentence):
    assert sentence in illegal_field(Instruction(opcode, values), CONFIG)


def test_a_spread_leaves_a_byte_for_each_write():
    load = Instruction(Opcode.LOAD, {"row_bytes": 1, "rows": 1, "planes": 1, "spread": 3})
    assert illegal_field(load, CONFIG) is None
    assert illegal_field(load, PRESETS["nano"]) == "LOAD.spread must be 0 to 2, not 3"


def test_post_limits_follow_the_configuration():
    fields = {"width": 1, "height": 1, "oc_blocks": 1, "rounding": 0}
    assert illegal_field(Instruction(Opcode.POST, {**fields, "tail": 8}), CONFIG) is None
    problem = illegal_field(Instruction(Opcode.POST, {**fields, "tail": 9}), CONFIG)
    assert problem == "POST.tail must be 1 to 8, not 9"


def test_fields_of_units_that_are_not_built():
    fields = {"width": 1, "height": 1, "oc_blocks": 1, "tail": 1, "table": 2}
    assert illegal_field(Instruction(Opcode.POST, fields), PRESETS["reference"]) is None
    problem = illegal_field(Instruction(Opcode.POST, fields), CONFIG)
    assert problem == "POST.table must be 0 in a configuration without tables, not 2"
    tables, products = {"table"}, {"product", "factor_zero", "addend"}
    built = {"reference": tables | products, "large": tables | products}
    for name in PRESETS:
        known = {item.name for item in fields_of(Opcode.POST, PRESETS[name])}
        assert (tables | products) & known == built.get(name, set())


def test_modes_that_are_not_built_are_illegal():
    fields = dict.fromkeys(_ONES, 1)
    assert illegal_field(Instruction(Opcode.EXEC, fields), CONFIG) is None
    problem = illegal_field(Instruction(Opcode.EXEC, {**fields, "mode": 1}), CONFIG)
    assert problem == "EXEC.mode must be one of 0, not 1"
    assert illegal_field(Instruction(Opcode.EXEC, {**fields, "mode": 1}), NARROW) is None
    problem = illegal_field(Instruction(Opcode.EXEC, {**fields, "mode": 2}), NARROW)
    assert problem == "EXEC.mode must be one of 0, 1, not 2"


@pytest.mark.parametrize("name", ["maximum", "window"])
def test_fields_that_only_bytes_know(name):
    fields = {**dict.fromkeys(_ONES, 1), name: 1}
    assert illegal_field(Instruction(Opcode.EXEC, fields), NARROW) is None
    problem = illegal_field(Instruction(Opcode.EXEC, {**fields, "mode": 1}), NARROW)
    assert problem == f"EXEC.{name} must be 0 in mode i8xi4, not 1"
