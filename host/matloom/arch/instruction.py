"""Instructions: values for the fields of a format, packed and unpacked, legal or not."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from matloom.arch.config import MAC_MODES, Config
from matloom.arch.isa import BYTES_ONLY, FORMATS, GRANULE_BYTES, Extent, Opcode
from matloom.arch.numerics import Rounding

__all__ = [
    "Instruction",
    "IsaError",
    "extent_end",
    "illegal_field",
    "length_granules",
    "pack",
    "unpack",
    "unpack_all",
]


class IsaError(ValueError):
    """Bytes that are no instruction, or an instruction that does not fit its format."""


@dataclass(frozen=True)
class Instruction:
    """An opcode with field values; fields not given are zero."""

    opcode: Opcode
    values: dict[str, int] = field(default_factory=dict)

    def __getattr__(self, name: str) -> int:
        """Return a field by name."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self.values:
            return int(self.values[name])
        for item in FORMATS[self.opcode].all_fields:
            if item.name == name:
                return 0
        raise AttributeError(f"{self.opcode.name} has no field {name!r}")

    def __hash__(self) -> int:
        """Hash like the packed bytes, so that equal instructions meet."""
        return hash(pack(self))


def pack(instruction: Instruction) -> bytes:
    """Return the instruction as 16, 32 or 48 little-endian bytes; raise `IsaError` if unfit."""
    layout = FORMATS[instruction.opcode]
    known = {item.name for item in layout.all_fields}
    for name in instruction.values:
        if name not in known:
            raise IsaError(f"{instruction.opcode.name} has no field {name!r}")
    word, position = 0, 0
    for item in layout.all_fields:
        value = (
            int(instruction.opcode)
            if item.name == "opcode"
            else int(instruction.values.get(item.name, 0))
        )
        smallest, largest = item.range
        if not smallest <= value <= largest:
            raise IsaError(
                f"{instruction.opcode.name}.{item.name} must be {smallest} to {largest}, "
                f"not {value}"
            )
        word |= (value & ((1 << item.bits) - 1)) << position
        position += item.bits
    return word.to_bytes(layout.granules * GRANULE_BYTES, "little")


def length_granules(first_byte: int) -> int:
    """Return the granules of the instruction that starts with this byte."""
    number = first_byte & 15
    if number not in FORMATS:
        raise IsaError(f"opcode must be one of {[int(op) for op in Opcode]}, not {number}")
    return FORMATS[Opcode(number)].granules


def unpack(data: bytes, offset: int = 0) -> tuple[Instruction, int]:
    """Return the instruction at `offset` and the offset behind it; raise `IsaError` if none."""
    if offset >= len(data):
        raise IsaError(f"an instruction must start inside the {len(data)} bytes, not at {offset}")
    end = offset + length_granules(data[offset]) * GRANULE_BYTES
    if end > len(data):
        raise IsaError(f"an instruction at {offset} must end by byte {len(data)}, not {end}")
    word = int.from_bytes(data[offset:end], "little")
    layout = FORMATS[Opcode(word & 15)]
    values = {}
    for item in layout.all_fields:
        raw = word & ((1 << item.bits) - 1)
        word >>= item.bits
        if item.signed and raw >> (item.bits - 1):
            raw -= 1 << item.bits
        if item.name != "opcode":
            values[item.name] = raw
    if word:
        raise IsaError(f"reserved bits of {layout.opcode.name} at {offset} must be zero")
    return Instruction(layout.opcode, values), end


def unpack_all(commands: bytes) -> Iterator[Instruction]:
    """Yield the instructions of a command buffer, END the last; raise `IsaError` as `unpack`."""
    opcode, offset = None, 0
    while opcode is not Opcode.END:
        instruction, offset = unpack(commands, offset)
        yield instruction
        opcode = instruction.opcode


def illegal_field(instruction: Instruction, config: Config) -> str | None:
    """Return a sentence on the first field outside its legal values, or None."""
    for item in FORMATS[instruction.opcode].all_fields:
        value = (
            int(instruction.opcode) if item.name == "opcode" else getattr(instruction, item.name)
        )
        if value and not item.exists(config):
            return (
                f"{instruction.opcode.name}.{item.name} must be 0 in a configuration without "
                f"{item.needs}, not {value}"
            )
        low, high = item.limits(config)
        choices = item.allowed(config)
        if choices is not None and value not in choices:
            allowed = ", ".join(str(int(choice)) for choice in choices)
            return f"{instruction.opcode.name}.{item.name} must be one of {allowed}, not {value}"
        if item.plain and value and instruction.mode:
            mode = MAC_MODES[instruction.mode]
            return f"{instruction.opcode.name}.{item.name} must be 0 in mode {mode}, not {value}"
        if not low <= value <= high:
            return f"{instruction.opcode.name}.{item.name} must be {low} to {high}, not {value}"
    if instruction.opcode is Opcode.POST and instruction.rounding == Rounding.FLOAT:
        formats = config.post_formats
        if instruction.pre_shift not in formats:
            allowed = ", ".join(map(str, formats))
            return f"POST.pre_shift must be one of {allowed}, not {instruction.pre_shift}"
        return _bytes_fault(instruction, ("words", *BYTES_ONLY), "under FLOAT")
    if instruction.opcode is Opcode.POST and instruction.words:
        return _bytes_fault(instruction, BYTES_ONLY, "with words")
    return None


def _bytes_fault(instruction: Instruction, names: tuple[str, ...], when: str) -> str | None:
    """Return a sentence on the first field that only goes with bytes, or None."""
    for name in names:
        if getattr(instruction, name):
            return f"POST.{name} must be 0 {when}, not {getattr(instruction, name)}"
    return None


def _factor(text: str, instruction: Instruction, config: Config) -> int:
    if text.startswith("@"):
        return int(getattr(config, text[1:]))
    if text.isdigit():
        return int(text)
    if text.endswith("-1"):
        return int(instruction.values.get(text[:-2], 0)) - 1
    if text.endswith("/2"):
        return int(instruction.values.get(text[:-2], 0)) // 2
    if text.endswith("%2"):
        return int(instruction.values.get(text[:-2], 0)) % 2
    return int(instruction.values.get(text, 0))


def extent_end(extent: Extent, instruction: Instruction, config: Config) -> int | None:
    """Return the first address behind an extent, or None where it does not apply."""
    for name, values in extent.only:
        if instruction.values.get(name, 0) not in values:
            return None
    end = int(instruction.values.get(extent.base, 0))
    for term in extent.terms:
        product = 1
        for factor in term:
            product *= _factor(factor, instruction, config)
        end += product
    return end
