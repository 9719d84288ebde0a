"""Where the fields of an instruction lie in its granules."""

from amaranth.hdl import Cat, Value
from amaranth.lib import data

from matloom.arch.isa import FORMATS, GRANULE_BYTES, HEAD, UNITS, Opcode
from matloom_rtl.ports import body_layout

__all__ = [
    "COUNT_BITS",
    "GRANULE_BITS",
    "LONGEST",
    "queue_layout",
    "reserved_bits",
    "slice_field",
    "view_body",
]

GRANULE_BITS = 8 * GRANULE_BYTES

#: Granules of the longest instruction.
LONGEST = max(layout.granules for layout in FORMATS.values())

#: Instructions of a unit are numbered modulo this many bits: more than can be dispatched while
#: one EXEC runs, so that the order of two numbers is always known.
COUNT_BITS = 24


def slice_field(word: Value, opcode: Opcode, name: str) -> Value:
    """Return a field of the instruction that begins at bit 0 of `word`."""
    position = 0
    for item in FORMATS[opcode].all_fields:
        if item.name == name:
            bits = word[position : position + item.bits]
            return bits.as_signed() if item.signed else bits
        position += item.bits
    raise KeyError(f"{opcode.name} has no field {name!r}")


def reserved_bits(word: Value, opcode: Opcode) -> Value:
    """Return the bits that must be zero."""
    return word[FORMATS[opcode].used_bits : FORMATS[opcode].bits]


def view_body(word: Value, opcode: Opcode) -> Value:
    """Return the bits of `body_layout` in order: the mark, and all that follows the head."""
    head_bits = sum(item.bits for item in HEAD)
    used = FORMATS[opcode].used_bits
    return Cat(slice_field(word, opcode, "mark"), word[head_bits:used])


def queue_layout(opcode: Opcode) -> data.StructLayout:
    """Return what waits in a unit's queue: the body, and for each unit whether it waits for it.

    It may start when the unit's completions are beyond the target, counted modulo 2**24.
    """
    return data.StructLayout(
        {
            "body": body_layout(opcode),
            "waits": len(UNITS),
            "targets": data.ArrayLayout(COUNT_BITS, len(UNITS)),
        }
    )
