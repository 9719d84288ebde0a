"""Instructions: values of the fields of a format, with packing, unpacking and legality."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from matloom.arch.config import Config
from matloom.arch.isa import (
    BLOCK_STEPS,
    BYTES_ONLY,
    FORMATS,
    INSTRUCTION_WORD_BYTES,
    REQUIRED_WITH_CURVE,
    REQUIRED_WITH_POOL,
    REQUIRED_WITH_RESULT,
    REQUIRED_WITH_ROWS,
    REQUIRED_WITH_SOFTMAX,
    Addend,
    Extent,
    Field,
    Opcode,
    RowFunction,
    byte_only_fields,
)
from matloom.arch.modes import MAC_MODES
from matloom.arch.numerics import Rounding


class IsaError(ValueError):
    """Bytes that are not an instruction, or field values that do not fit their format."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An opcode with field values; fields that `values` lacks are 0."""

    opcode: Opcode
    values: dict[str, int] = field(default_factory=dict)

    def __getattr__(self, name: str) -> int:
        """Return the value of a field, 0 if `values` lacks it.

        Raises `AttributeError` if instructions with this opcode have no such field.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self.values:
            return int(self.values[name])
        for item in FORMATS[self.opcode].all_fields:
            if item.name == name:
                return 0
        raise AttributeError(f"{self.opcode.name} has no field {name!r}")

    def __hash__(self) -> int:
        """Hash the packed bytes, consistent with equality."""
        return hash(pack(self))


def zero_points_of(fields: Mapping[str, int]) -> tuple[int, int]:
    """Return the zero points of an EXEC's input bytes and of its weights; 0, 0 if it has none.

    `fields` must hold every field that is read here.
    """
    if fields["window"] or not fields["zero_points"]:
        return 0, 0
    return fields["pad_value"], (fields["line"] ^ 128) - 128


class _Bits(NamedTuple):
    """Position of a field's lowest bit in its instruction, and the mask and range of its bits.

    The mask is not shifted to the position.
    """

    position: int
    mask: int
    smallest: int
    largest: int


@lru_cache
def _field_bits(opcode: Opcode) -> dict[str, _Bits]:
    """Return the bits of each field of an opcode's format by name, except for `opcode` itself."""
    found, position = {}, 0
    for item in FORMATS[opcode].all_fields:
        if item.name != "opcode":
            found[item.name] = _Bits(position, (1 << item.bits) - 1, *item.range)
        position += item.bits
    return found


def pack(instruction: Instruction) -> bytes:
    """Return the instruction as 16, 32 or 48 little-endian bytes.

    Raises `IsaError` if a field is unknown or its value does not fit its bits.
    """
    opcode, layout = instruction.opcode, _field_bits(instruction.opcode)
    word, out_of_range = int(opcode), []
    for name, value in instruction.values.items():
        if name not in layout:
            raise IsaError(f"{opcode.name} has no field {name!r}")
        bits = layout[name]
        if not bits.smallest <= value <= bits.largest:
            out_of_range.append((bits, name, value))
        word |= (int(value) & bits.mask) << bits.position
    if out_of_range:
        bits, name, value = min(out_of_range)
        raise IsaError(
            f"{opcode.name}.{name} must be {bits.smallest} to {bits.largest}, not {int(value)}"
        )
    return word.to_bytes(FORMATS[opcode].instruction_words * INSTRUCTION_WORD_BYTES, "little")


def length_words(first_byte: int) -> int:
    """Return the length, in instruction words, of the instruction with this first byte.

    Raises `IsaError` if the opcode is unknown.
    """
    number = first_byte & 15
    if number not in FORMATS:
        raise IsaError(f"opcode must be one of {[int(op) for op in Opcode]}, not {number}")
    return FORMATS[Opcode(number)].instruction_words


def unpack(data: bytes, offset: int = 0) -> tuple[Instruction, int]:
    """Return the instruction at `offset` and the offset after it; raise `IsaError` if invalid."""
    if offset >= len(data):
        raise IsaError(f"an instruction must start inside the {len(data)} bytes, not at {offset}")
    end = offset + length_words(data[offset]) * INSTRUCTION_WORD_BYTES
    if end > len(data):
        raise IsaError(f"an instruction at {offset} must end by byte {len(data)}, not {end}")
    word = int.from_bytes(data[offset:end], "little")
    opcode = Opcode(word & 15)
    values = {}
    for name, (position, mask, smallest, largest) in _field_bits(opcode).items():
        value = (word >> position) & mask
        values[name] = value if value <= largest else value + 2 * smallest
    if word >> FORMATS[opcode].used_bits:
        raise IsaError(f"reserved bits of {opcode.name} at {offset} must be zero")
    return Instruction(opcode, values), end


class _FieldRule(NamedTuple):
    """Legal values of a field in a configuration.

    Legal values lie between `low` and `high` (inclusive), are multiples of `unit`, and are among
    `choices` unless that is None.
    """

    item: Field
    exists: bool
    low: int
    high: int
    choices: tuple[int, ...] | None
    unit: int

    def describe_violation(self, opcode: Opcode, value: int, mode: int) -> str:
        """Return a sentence that says why a value is illegal; the value must be illegal.

        `mode` is the index of the instruction's mode in `MAC_MODES`.
        """
        name = f"{opcode.name}.{self.item.name}"
        if value and self.item.needs == "reserved":
            return f"{name} is reserved and must be 0, not {value}"
        if value and not self.exists:
            return f"{name} must be 0 in a configuration without {self.item.needs}, not {value}"
        if self.choices is not None and value not in self.choices:
            allowed = ", ".join(str(int(choice)) for choice in self.choices)
            return f"{name} must be one of {allowed}, not {value}"
        if value % self.unit:
            return f"{name} must be a multiple of {self.unit}, not {value}"
        if self.item.plain and value and mode:
            return f"{name} must be 0 in mode {MAC_MODES[mode]}, not {value}"
        return f"{name} must be {self.low} to {self.high}, not {value}"


@lru_cache
def _field_rules(opcode: Opcode, config: Config) -> tuple[_FieldRule, ...]:
    """Return the legal values of each field of an opcode's format, except for `opcode` itself."""
    return tuple(
        _FieldRule(
            item,
            item.exists(config),
            *item.limits(config),
            choices=item.allowed_values(config),
            unit=item.unit(config),
        )
        for item in FORMATS[opcode].all_fields[1:]
    )


def illegal_field(instruction: Instruction, config: Config) -> str | None:
    """Return a sentence on the first illegal value or combination of fields; None if legal."""
    opcode, get = instruction.opcode, instruction.values.get
    mode = int(get("mode", 0))
    for rule in _field_rules(opcode, config):
        item, _exists, low, high, choices, unit = rule
        value = get(item.name, 0)
        if (
            low <= value <= high
            and (choices is None or value in choices)
            and not value % unit
            and not (mode and value and item.plain)
        ):
            continue
        return rule.describe_violation(opcode, int(value), mode)
    if instruction.opcode is Opcode.EXEC and instruction.window and instruction.paired:
        return _blocks_fault(instruction, config.weight_boundary)
    return _post_fault(instruction, config) if instruction.opcode is Opcode.POST else None


def _post_fault(instruction: Instruction, config: Config) -> str | None:
    """Return a sentence on the first fields of a POST that are illegal together; None if legal."""
    if instruction.rounding == Rounding.FLOAT:
        formats = config.post_formats
        if instruction.pre_shift not in formats:
            allowed = ", ".join(map(str, formats))
            return f"POST.pre_shift must be one of {allowed}, not {instruction.pre_shift}"
        return _bytes_fault(instruction, ("words", "curve", *BYTES_ONLY), "under FLOAT")
    if instruction.product and instruction.addend:
        return _bytes_fault(instruction, ("addend",), "with a product")
    if instruction.words:
        fault = _bytes_fault(instruction, byte_only_fields(config), "with words")
        if fault:
            return fault
    makes_rows = instruction.softmax == RowFunction.SOFTMAX
    for used, name, rules in (
        (instruction.curve, "a curve", REQUIRED_WITH_CURVE),
        (
            instruction.softmax,
            "softmax",
            REQUIRED_WITH_SOFTMAX | (REQUIRED_WITH_ROWS if makes_rows else {}),
        ),
        (instruction.pool, "pool", REQUIRED_WITH_POOL),
        (instruction.addend == Addend.RESULT, "addend 3", REQUIRED_WITH_RESULT),
    ):
        fault = _required_value_fault(name, rules, instruction) if used else None
        if fault:
            return fault
    return None


def _blocks_fault(instruction: Instruction, unit: int) -> str | None:
    """Return a sentence on the first illegal field of a paired window; None if all are legal.

    `unit` is the required alignment in bytes of the input's addresses and steps.
    """
    for name in BLOCK_STEPS:
        if getattr(instruction, name) % unit:
            return (
                f"EXEC.{name} must be a multiple of {unit} in a paired window, "
                f"not {getattr(instruction, name)}"
            )
    if instruction.blocks != 1:
        return f"EXEC.blocks must be 1 in a paired window, not {instruction.blocks}"
    return None


def _bytes_fault(instruction: Instruction, names: tuple[str, ...], when: str) -> str | None:
    """Return a sentence on the first of POST fields `names` that is not 0; None if all are 0.

    `when` completes the sentence: it says under which condition the fields must be 0.
    """
    for name in names:
        if getattr(instruction, name):
            return f"POST.{name} must be 0 {when}, not {getattr(instruction, name)}"
    return None


def _required_value_fault(
    used: str, rules: Mapping[str, int], instruction: Instruction
) -> str | None:
    """Return a sentence on the first POST field without the value that `used` requires, or None.

    `rules` maps fields to required values, and `used` names the feature that requires them.
    """
    for name, value in rules.items():
        if getattr(instruction, name) != value:
            return f"POST.{name} must be {value} with {used}, not {getattr(instruction, name)}"
    return None


def extent_end(extent: Extent, instruction: Instruction, config: Config) -> int | None:
    """Return the first address after an extent; None if the extent does not apply."""
    end = extent.end(instruction.values.get, config)
    return None if end is None else int(end)
