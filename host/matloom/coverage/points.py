"""Finds the coverage points that an instruction reaches."""

from collections.abc import Iterator, Mapping
from functools import cache

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import HEAD, AddressSpace, Opcode, Region
from matloom.coverage.model import (
    CROSSING,
    FIRST,
    LAST,
    Point,
    boundary_distance,
    capacity,
    field_values,
)
from matloom.coverage.sizes import extent_sizes
from matloom.coverage.variants import (
    base_fields,
    body_fields,
    effect_conditions,
    variant_of,
    variants,
    why_single_value,
)

#: Start address and size in bytes of a region of external memory.
Window = tuple[int, int]

#: Words that name a value in points (a number, or `FIRST` and `LAST`), by field and value.
_Words = dict[str, dict[int, list[str]]]

_HEAD_FIELDS = {item.name: item for item in HEAD if item.name.startswith("wait_")}


@cache
def _words_by_value(opcode: Opcode, config: Config) -> dict[str, _Words]:
    """Return the words by which points name field values, by mode's name, field and value."""
    found: dict[str, _Words] = {}
    for variant in variants(opcode, config):
        words: _Words = {}
        for name, item in body_fields(opcode, config).items():
            if (
                name in base_fields(opcode)
                or name in variant.fixed
                or why_single_value(variant, item, config)
            ):
                continue
            for word, value in field_values(variant, item, config).items():
                words.setdefault(name, {}).setdefault(value, []).append(word)
        found[variant.name] = words
    return found


def fields_reached(
    instruction: Instruction, config: Config, windows: Mapping[Region, Window]
) -> Iterator[Point]:
    """Yield the coverage points of fields and addresses that an instruction reaches.

    The points lack their last word, which is the stall behaviour of external memory.

    Parameters
    ----------
    windows:
        Regions of external memory, as set in the registers.
    """
    opcode, values = instruction.opcode, instruction.values
    if opcode is Opcode.END:
        return
    variant = variant_of(opcode, values, config)
    for name, words in _words_by_value(opcode, config)[variant].items():
        for word in words.get(values.get(name, 0), ()):
            if _has_effect(opcode, name, values):
                yield f"{variant}: {name} {word}"
    for (memory, base), size in extent_sizes(opcode, values, config).items():
        if not size:
            continue
        start, end, bus = values.get(base, 0), capacity(memory, config), 0
        if memory is AddressSpace.DRAM:
            bus, end = windows[Region(values.get("region", 0))]
        unit = boundary_distance(memory, config)
        if start == 0:
            yield f"{variant}: {base} {FIRST}"
        if start + size == end:
            yield f"{variant}: {base} {LAST}"
        if (bus + start) // unit != (bus + start + size - 1) // unit:
            yield f"{variant}: {base} {CROSSING}"


def _has_effect(opcode: Opcode, name: str, values: Mapping[str, int]) -> bool:
    """Return whether a field has an effect in an instruction with these field values."""
    return all(
        low <= values.get(other, 0) and (high is None or values.get(other, 0) <= high)
        for other, (low, high) in effect_conditions(opcode, name).items()
    )


def waits_reached(instruction: Instruction) -> Iterator[Point]:
    """Yield the coverage points of wait fields that an instruction reaches."""
    for name, item in _HEAD_FIELDS.items():
        value = instruction.values.get(name, 0)
        for place, boundary in ((FIRST, 0), (LAST, item.range[1])):
            if value == boundary:
                yield f"{instruction.opcode.name} {name} {place}"
