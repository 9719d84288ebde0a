"""What an instruction reads and writes: memories, addresses, lines."""

from collections.abc import Iterator
from dataclasses import dataclass

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction, extent_end
from matloom.arch.isa import FORMATS, Memory, Region
from matloom.schedule.touched import Lines, touched_lines

__all__ = ["Access", "Space", "accesses"]

#: A memory, and the region of external memory.
Space = tuple[Memory, Region | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """Addresses ``start .. end - 1`` that an instruction reads or writes; `base` is the field.

    `lines` are those of the addresses that it touches, None for all.
    """

    space: Space
    base: str
    start: int
    end: int
    write: bool
    lines: Lines | None = None

    def __str__(self) -> str:
        memory, region = self.space
        name = memory.name if region is None else f"{memory.name} region {region.name}"
        return f"{name} addresses {self.start} to {self.end - 1}"


def accesses(instruction: Instruction, config: Config) -> Iterator[Access]:
    """Yield the accesses of an instruction, empty ones too."""
    for extent in FORMATS[instruction.opcode].extents:
        end = extent_end(extent, instruction, config)
        if end is not None:
            start = int(instruction.values.get(extent.base, 0))
            region = Region(instruction.region) if extent.memory is Memory.DRAM else None
            yield Access(
                space=(extent.memory, region),
                base=extent.base,
                start=start,
                end=end,
                write=extent.write,
                lines=touched_lines(extent, instruction, config),
            )
