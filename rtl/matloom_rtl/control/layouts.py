"""Positions of instruction fields in words, and sizes of the queues."""

from amaranth.hdl import Cat, Value
from amaranth.lib import data

from matloom.arch.config import Config
from matloom.arch.isa import FORMATS, INSTRUCTION_WORD_BYTES, UNITS, Opcode, fields_of

__all__ = [
    "GRANULE_BITS",
    "LONGEST",
    "LONGEST_WAIT",
    "count_bits",
    "field_place",
    "max_issued_before_read",
    "notes_layout",
    "place_bits",
    "queue_places",
    "reserved_bits",
    "slice_field",
    "view_body",
]

GRANULE_BITS = 8 * INSTRUCTION_WORD_BYTES

#: Number of instruction words of the longest instruction.
LONGEST = max(layout.instruction_words for layout in FORMATS.values())

#: Number of instruction words of the shortest instruction of a unit.
SHORTEST = min(FORMATS[unit].instruction_words for unit in UNITS)

#: Longest wait; exceeds the number of instructions a unit may have in flight.
LONGEST_WAIT = 63


def queue_places(config: Config) -> int:
    """Return the number of places in a queue's FIFO; the oldest instruction is outside of it."""
    return max(2, config.queue_depth - 1)


def count_bits(config: Config) -> int:
    """Return the width of a count of instructions, enough to compare a target with completions.

    Once an instruction has been read, its targets are compared with the completions in every
    cycle. Until then its words are in the instruction memory, which has room for at most
    `max_issued_before_read` further instructions. So a target is never further behind the
    completions than the sum of that number and the longest wait.
    """
    return 1 + (LONGEST_WAIT + max_issued_before_read(config, SHORTEST)).bit_length()


def max_issued_before_read(config: Config, words: int) -> int:
    """Return how many instructions may be issued after one of `words` words, before it is read.

    Until it is read, its words and those of the later instructions share the instruction memory.
    """
    return ((1 << place_bits(config)) - words) // SHORTEST


def field_place(opcode: Opcode, name: str) -> tuple[int, int]:
    """Return the first bit of a field in its instruction, and the bit after its last.

    Raise `KeyError` if the opcode has no such field.
    """
    position = 0
    for item in FORMATS[opcode].all_fields:
        if item.name == name:
            return position, position + item.bits
        position += item.bits
    raise KeyError(f"{opcode.name} has no field {name!r}")


def slice_field(word: Value, opcode: Opcode, name: str, config: Config | None = None) -> Value:
    """Return the field of an instruction that begins at bit 0 of `word`.

    With a configuration, return only the bits that a legal value can use (`Field.width`).
    """
    first, beyond = field_place(opcode, name)
    item = next(item for item in FORMATS[opcode].all_fields if item.name == name)
    if config is not None:
        beyond = first + item.width(config)
    bits = word[first:beyond]
    return bits.as_signed() if item.signed else bits


def reserved_bits(word: Value, opcode: Opcode, config: Config) -> Value:
    """Return bits that must all be zero in a legal instruction.

    These are the bits of no field, of fields that do not exist, and above the span of a field; in
    signed fields, the latter are compared with the sign. Adjacent bits are one slice, so that a
    field that does not exist leaves no trace in Verilog.
    """
    signs: list[Value] = []
    ranges: list[tuple[int, int]] = []

    def reserve(first: int, end: int) -> None:
        """Add the bits from `first` to before `end`, joined to the last range if they follow it."""
        if ranges and ranges[-1][1] == first:
            first = ranges.pop()[0]
        ranges.append((first, end))

    position = 0
    for item in FORMATS[opcode].all_fields:
        bits = word[position : position + item.bits]
        span = item.span_bits(config) if item.exists(config) else 0
        if item.signed and 0 < span < item.bits:
            signs.append(bits[span:] ^ bits[span - 1].replicate(item.bits - span))
        elif span < item.bits:
            reserve(position + span, position + item.bits)
        position += item.bits
    if position < FORMATS[opcode].bits:
        reserve(position, FORMATS[opcode].bits)
    return Cat(*signs, *(word[first:end] for first, end in ranges))


def view_body(word: Value, opcode: Opcode, config: Config) -> Value:
    """Return the fields of an instruction in the order of `ports.body_layout`, as one value."""
    names = ("timestamp", *(item.name for item in fields_of(opcode, config)))
    return Cat(slice_field(word, opcode, name, config) for name in names)


def notes_layout(config: Config) -> data.StructLayout:
    """Return the layout of an instruction's waits: for each unit, whether it waits, and a target.

    The wait is met when the number of the unit's completions exceeds the target, compared modulo
    ``2**count_bits(config)``.
    """
    return data.StructLayout(
        {"waits": len(UNITS), "targets": data.ArrayLayout(count_bits(config), len(UNITS))}
    )


def place_bits(config: Config) -> int:
    """Return the width of a word's index in the instruction memory.

    The memory has as many words as the longest instructions in full queues, rounded down to a power
    of two.
    """
    return (len(UNITS) * queue_places(config) * LONGEST).bit_length() - 1
