"""Waits between units, derived from what each instruction reads and writes."""

import numpy as np

from matloom.arch.config import Config
from matloom.arch.footprint import StridedRange, footprint
from matloom.arch.instruction import Instruction, extent_end
from matloom.arch.isa import FORMATS, UNITS, AddressSpace, Extent, Opcode, Region, largest
from matloom.program.accesses import strided_view

__all__ = ["DependencyTracker"]

_WAIT_FIELDS = ("wait_load", "wait_exec", "wait_post", "wait_store")
_LONGEST_WAIT = largest(Opcode.LOAD, "wait_exec")
_NEVER = -1

#: External memory is tracked in lines of this many bytes, which may add waits, never lose one.
_DRAM_LINE = 64


_UNITS = {unit: number for number, unit in enumerate(UNITS)}


class _Accesses:
    """For each unit the number of its last instruction that wrote, and read, each line.

    Of the rows of `last`, those of writes come first.
    """

    def __init__(self, size: int, line: int = 1):
        self.line = line
        self.last = np.full((2 * len(UNITS), -(-size // line)), _NEVER, np.int32)
        self._writes = self.last[: len(UNITS)]

    def latest(self, lines: StridedRange, *, write: bool) -> list[int]:
        """Return for each unit the last instruction that an access must follow."""
        numbers = strided_view(self.last if write else self._writes, lines)
        found: list[int] = np.maximum.reduce(
            numbers, axis=tuple(range(1, numbers.ndim)), initial=_NEVER
        ).tolist()
        return list(map(max, found, found[len(UNITS) :])) if write else found

    def remember(self, unit: int, number: int, lines: StridedRange, *, write: bool) -> None:
        """Note an access."""
        strided_view(self.last, lines)[unit if write else unit + len(UNITS)] = number


class DependencyTracker:
    """Appends instructions and gives each the waits that its memory accesses need.

    Extents are the boxes of `matloom.arch.isa`, within them the channels that are touched, so
    a wait may be stronger than needed, never weaker. The program region is constant and the
    input region is only read: they need none.
    """

    def __init__(self, config: Config, dram_bytes: dict[Region, int]):
        self.config = config
        self.instructions: list[Instruction] = []
        self._issued = [0] * len(UNITS)
        self._on_chip = {
            AddressSpace.SPAD: _Accesses(config.spad_bytes),
            AddressSpace.ACC: _Accesses(config.acc_entries),
        }
        self._dram = {region: _Accesses(size, _DRAM_LINE) for region, size in dram_bytes.items()}

    def _accesses(self, extent: Extent, instruction: Instruction) -> _Accesses | None:
        if extent.memory is AddressSpace.DRAM:
            return self._dram.get(Region(instruction.values["region"]))
        return self._on_chip[extent.memory]

    def append(self, opcode: Opcode, **values: int) -> Instruction:
        """Issue an instruction behind all others; return it with its waits."""
        bare = Instruction(opcode, values)
        unit = _UNITS[opcode]
        number = self._issued[unit]
        latest = [_NEVER] * len(UNITS)
        touched = []
        for extent in FORMATS[opcode].extents:
            end = extent_end(extent, bare, self.config)
            if end is None:
                continue
            start = values.get(extent.base, 0)
            accesses = self._accesses(extent, bare)
            if accesses is None or end <= start:
                continue
            lines = footprint(extent, bare, self.config)
            if lines is None:
                first = start // accesses.line
                lines = StridedRange(first, -(-end // accesses.line) - first)
            touched.append((accesses, lines, extent.write))
            latest = list(map(max, latest, accesses.latest(lines, write=extent.write)))
        for accesses, lines, write in touched:
            accesses.remember(unit, number, lines, write=write)
        waits = {
            _WAIT_FIELDS[other]: min(self._issued[other] - latest[other], _LONGEST_WAIT)
            for other in range(len(UNITS))
            if other != unit and latest[other] != _NEVER
        }
        self._issued[unit] += 1
        instruction = Instruction(opcode, {**values, **waits})
        self.instructions.append(instruction)
        return instruction

    def end(self) -> None:
        """Append the END."""
        self.instructions.append(Instruction(Opcode.END, {}))
