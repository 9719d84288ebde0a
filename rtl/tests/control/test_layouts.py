"""Positions of fields, compared with the output of `pack`: bodies and reserved bits."""

import dataclasses
import random

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal

from matloom.arch.config import PRESETS, Config
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import FORMATS, UNITS, Opcode
from matloom_rtl.control.layouts import (
    GRANULE_BITS,
    LONGEST,
    field_place,
    place_bits,
    queue_places,
    reserved_bits,
    slice_field,
    view_body,
)
from matloom_rtl.ports import body_layout
from matloom_rtl.testing import simulate

CONFIGS = {
    "nano": PRESETS["nano"],
    "everything": dataclasses.replace(Config(), mac_modes=("i8xi8", "i8xi4", "i16xi8")),
}


def fields_of_format(opcode):
    return [item for item in FORMATS[opcode].all_fields if item.name != "opcode"]


def word_of(opcode, values):
    return int.from_bytes(pack(Instruction(opcode, values)), "little")


@pytest.mark.parametrize("name", PRESETS)
def test_the_instruction_memory_is_just_smaller_than_full_queues(name):
    """It has the largest power of two of words that full queues of long instructions need."""
    config = PRESETS[name]
    words = len(UNITS) * queue_places(config) * LONGEST
    assert words / 2 < 1 << place_bits(config) <= words


@pytest.mark.parametrize("opcode", Opcode)
def test_every_field_where_it_is_packed(seed, opcode):
    chance = random.Random(seed)
    word = Signal(LONGEST * GRANULE_BITS)
    m = Module()
    found = {}
    for item in fields_of_format(opcode):
        value = slice_field(word, opcode, item.name)
        found[item.name] = Signal(value.shape(), name=item.name)
        m.d.comb += found[item.name].eq(value)

    async def check(ctx):
        for _number in range(5):
            values = {
                item.name: chance.choice((*item.range, chance.randint(*item.range)))
                for item in fields_of_format(opcode)
            }
            # What comes after the instruction is of the one before.
            above = chance.getrandbits(16) << FORMATS[opcode].bits
            ctx.set(word, (word_of(opcode, values) | above) % 2 ** len(word))
            assert {name: ctx.get(port) for name, port in found.items()} == values

    simulate(m, check, cycles=1)
    with pytest.raises(KeyError, match=f"{opcode.name} has no field 'rowes'"):
        field_place(opcode, "rowes")


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("opcode", UNITS)
def test_bodies_have_the_layout_of_the_units(seed, opcode, name):
    chance, config = random.Random(seed), CONFIGS[name]
    word = Signal(LONGEST * GRANULE_BITS)
    m = Module()
    body = Signal(body_layout(opcode, config))
    m.d.comb += body.eq(view_body(word, opcode, config))

    async def check(ctx):
        for _number in range(5):
            values = {
                item.name: chance.choice(
                    item.allowed_values(config) or (chance.randint(*item.limits(config)),)
                )
                for item in fields_of_format(opcode)
            }
            ctx.set(word, word_of(opcode, values))
            shown = ctx.get(body)
            assert {member: shown[member] for member, _ in body.shape()} == {
                member: values[member] for member, _ in body.shape()
            }

    simulate(m, check, cycles=1)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("opcode", Opcode)
def test_reserved_are_all_bits_without_a_field(opcode, name):
    """Bit by bit: absent fields, gaps, and bits after the last field."""
    config = CONFIGS[name]
    free = set(range(FORMATS[opcode].used_bits, FORMATS[opcode].bits))
    position = 0
    for item in FORMATS[opcode].all_fields:
        used = item.span_bits(config) if item.exists(config) else 0
        # The sign of a signed field, which those above must repeat, is its last bit of use.
        signs = int(item.signed and 0 < used < item.bits)
        free |= set(range(position + used - signs, position + item.bits))
        position += item.bits
    word = Signal(LONGEST * GRANULE_BITS)
    m = Module()
    found = Signal()
    m.d.comb += found.eq(reserved_bits(word, opcode, config).any())

    async def check(ctx):
        for bit in range(len(word)):
            ctx.set(word, 1 << bit)
            assert ctx.get(found) == (bit in free), bit

    simulate(m, check, cycles=1)


@pytest.mark.parametrize("opcode", [Opcode.EXEC, Opcode.POST])
def test_later_fields_that_do_not_exist_change_nothing(monkeypatch, opcode):
    """New fields that an engine lacks leave its Verilog, and so its reports of area, unchanged."""

    def text():
        m = Module()
        word = Signal(LONGEST * GRANULE_BITS)
        found = Signal()
        m.d.comb += found.eq(reserved_bits(word, opcode, PRESETS["nano"]).any())
        return rtlil.convert(m, ports=[word, found], emit_src=False)

    before, layout = text(), FORMATS[opcode]
    fields = list(layout.fields)
    while not fields[-1].exists(PRESETS["nano"]):
        fields.pop()
    assert len(fields) < len(layout.fields)
    monkeypatch.setitem(FORMATS, opcode, dataclasses.replace(layout, fields=tuple(fields)))
    assert text() == before
