"""Addresses that an instruction reads and writes, in all memories."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.footprint import StridedRange, footprint
from matloom.arch.instruction import Instruction
from matloom.arch.isa import FORMATS, AddressSpace, Region

_Entry = TypeVar("_Entry", bound=np.generic)

#: A memory, and the region if it is external memory, else None.
Space = tuple[AddressSpace, Region | None]


class MemoryAccess(NamedTuple):
    """Address range ``start .. end - 1`` that an instruction reads or writes.

    `base` is the field that holds `start`. `addresses` are those within the range that
    the instruction accesses; None if it may access all.
    """

    space: Space
    base: str
    start: int
    end: int
    write: bool
    addresses: StridedRange | None = None

    def __str__(self) -> str:
        memory, region = self.space
        name = memory.name if region is None else f"{memory.name} region {region.name}"
        return f"{name} addresses {self.start} to {self.end - 1}"


def accesses(instruction: Instruction, config: Config) -> Iterator[MemoryAccess]:
    """Yield the accesses of an instruction to all memories, including empty ones."""
    get = instruction.values.get
    for extent in FORMATS[instruction.opcode].extents:
        end = extent.end(get, config)
        if end is not None:
            memory, base = extent.memory, extent.base
            region = Region(get("region", 0)) if memory is AddressSpace.DRAM else None
            addresses = footprint(extent, instruction, config)
            yield MemoryAccess(
                (memory, region), base, int(get(base, 0)), int(end), extent.write, addresses
            )


def strided_view(table: NDArray[_Entry], addresses: StridedRange) -> NDArray[_Entry]:
    """Return a writable view of strided addresses in a table with a column for each address.

    `table` is (units, addresses). The axes of the view are units, then those along which
    `addresses` has strides, and last the consecutive addresses at each place.
    """
    assert addresses.start >= 0
    assert addresses.end <= table.shape[1], "the table must have the addresses"
    unit, entry = table.strides
    return np.ndarray(
        (len(table), *addresses.counts, addresses.run),
        table.dtype,
        table,
        addresses.start * entry,
        (unit, *[step * entry for step in addresses.steps], entry),
    )
