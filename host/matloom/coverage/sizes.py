"""Sizes of the memory ranges that an instruction touches from its base addresses."""

import functools
from collections.abc import Callable, Mapping

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction, extent_end
from matloom.arch.isa import AddressSpace, Extent, Opcode, extents_of


@functools.cache
def extents(opcode: Opcode, config: Config) -> tuple[Extent, ...]:
    """Return the memory ranges (extents) that instructions of an opcode may access.

    Extents for hardware that the configuration lacks are left out.
    """
    return extents_of(opcode, config)


def extent_sizes(
    opcode: Opcode, values: Mapping[str, int], config: Config
) -> dict[tuple[AddressSpace, str], int]:
    """Return the sizes of the memory ranges that an instruction touches, by memory and base field.

    A size is counted from the base address, in bytes, or in entries for ACC. Of several extents
    with one base, the largest size is returned; extents that do not apply are left out.
    """
    every = extents(opcode, config)
    instruction = Instruction(opcode, {**values, **{extent.base: 0 for extent in every}})
    sizes: dict[tuple[AddressSpace, str], int] = {}
    for extent in every:
        end = extent_end(extent, instruction, config)
        if end is not None:
            key = (extent.memory, extent.base)
            sizes[key] = max(end, sizes.get(key, 0))
    return sizes


def largest_fitting(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest value from `low` to `high` that fits; `low` if none does.

    If a value fits, all smaller ones must fit, too.
    """
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
