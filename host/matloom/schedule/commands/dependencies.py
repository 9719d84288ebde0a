"""Adds waits between units, derived from the memory that each instruction reads and writes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.footprint import StridedRange, footprint
from matloom.arch.instruction import Instruction
from matloom.arch.isa import FORMATS, UNITS, AddressSpace, Extent, Opcode, Region, largest
from matloom.arch.machine import Machine
from matloom.cost.dispatch import WAIT_FIELDS
from matloom.cost.timing import Timing, shared_timings

_LONGEST_WAIT = largest(Opcode.LOAD, "wait_exec")
_NO_ACCESS = -1

#: External memory is tracked in lines of this many bytes, which may add waits but never omit one.
_DRAM_LINE = 64

#: Lines of memory by unit, where axis 0 is the unit; and the other axes of such arrays, by rank.
_Rows = NDArray[np.int32]
_AXES = tuple(tuple(range(1, axes)) for axes in range(5))

#: Lines that an instruction touches: the latest access of each unit to them; the axes of the lines;
#: the units; and a function that records the instruction's own index. A plain tuple for speed.
_TouchedLines = tuple[_Rows, tuple[int, ...], tuple[int, ...], Callable[[int], None]]

_latest = np.maximum.reduce

_UNITS = {unit: number for number, unit in enumerate(UNITS)}


@lru_cache
def _units_accessing(space: AddressSpace, *, write: bool) -> tuple[int, ...]:
    """Return the units that can write, or read, a memory."""
    return tuple(
        number
        for unit, number in _UNITS.items()
        if any(each.memory is space and each.write is write for each in FORMATS[unit].extents)
    )


class _Accesses:
    """For each line of a memory, the last instruction of each unit that wrote or read it.

    The rows of `last` are the units that can write, then the units that can read. All bytes of a
    line have been accessed together so far, except in external memory.
    """

    def __init__(self, space: AddressSpace, size: int, line: int = 1):
        self.line = line
        writers, readers = _units_accessing(space, write=True), _units_accessing(space, write=False)
        self._units = (*writers, *readers)
        self._written, self._writers = len(writers), writers
        self._rows = {
            **{(unit, True): row for row, unit in enumerate(writers)},
            **{(unit, False): row for row, unit in enumerate(readers, len(writers))},
        }
        self.last = np.full((len(self._units), -(-size // line)), _NO_ACCESS, np.int32)

    def shorten_lines(self, part: StridedRange) -> bool:
        """Shorten lines (bytes accessed together) until a part of the memory is whole lines.

        Return whether they were shortened, so that earlier views of `last` are out of date.
        """
        line = gcd(self.line, part.start, part.run, *part.steps)
        if line == self.line:
            return False
        self.last = np.repeat(self.last, self.line // line, axis=1)
        self.line = line
        return True

    def lines_of(self, part: StridedRange) -> StridedRange:
        """Return a part of the memory as a range of lines."""
        line = self.line
        steps = tuple([step // line for step in part.steps])
        return StridedRange(part.start // line, part.run // line, part.counts, steps)

    def rows_of(self, lines: StridedRange) -> _Rows:
        """Return a view of the last accesses to some lines.

        NumPy raises if the lines do not exist.
        """
        if not lines.counts and 0 <= lines.start <= lines.end <= self.last.shape[1]:
            return self.last[:, lines.start : lines.end]
        unit, line = self.last.strides
        return np.ndarray(
            (len(self._units), *lines.counts, lines.run),
            np.int32,
            self.last,
            lines.start * line,
            (unit, *[step * line for step in lines.steps], line),
        )

    def touch(self, unit: int, lines: StridedRange, *, write: bool) -> _TouchedLines:
        """Return the earlier accesses that a unit's new access to some lines must wait for.

        The result includes a function that records the new access; `write` says that it writes.
        """
        rows = self.rows_of(lines)
        seen, units = (rows, self._units) if write else (rows[: self._written], self._writers)
        return seen, _AXES[rows.ndim], units, rows[self._rows[unit, write]].fill


@dataclass(frozen=True)
class _Extents:
    """Address ranges (extents) that an opcode may access, and those that apply to given fields.

    `known` caches the latter, by the values of `fields`.
    """

    every: tuple[Extent, ...]
    fields: tuple[str, ...]
    known: dict[tuple[int, ...], tuple[Extent, ...]]

    def of(self, values: dict[str, int]) -> tuple[Extent, ...]:
        """Return the extents that apply to an instruction with these field values."""
        key = tuple([values.get(name, 0) for name in self.fields])
        found = self.known.get(key)
        if found is None:
            values_of_key = dict(zip(self.fields, key, strict=True))
            found = self.known[key] = tuple(
                extent
                for extent in self.every
                if all(values_of_key[name] in allowed for name, allowed in extent.only)
            )
        return found


def _extents_of(opcode: Opcode) -> _Extents:
    """Return the address ranges of an opcode's instructions, with an empty cache."""
    every = FORMATS[opcode].extents
    fields = dict.fromkeys(name for extent in every for name, _allowed in extent.only)
    return _Extents(every, tuple(fields), {})


_EXTENTS = {unit: _extents_of(unit) for unit in UNITS}

#: Fields that affect neither the addresses that an instruction touches on chip nor its cost, except
#: for an offset in external memory.
_ELSEWHERE = frozenset(
    (
        *("dram_offset", "fill_value", "pad_value"),
        *("bias", "multiplier", "shift", "output_zero", "factor_zero"),
        *("clamp_low", "clamp_high", "low_byte", "high_byte"),
    )
)
_SHAPE = {
    unit: tuple(each.name for each in FORMATS[unit].fields if each.name not in _ELSEWHERE)
    for unit in UNITS
}


class _AccessPattern(NamedTuple):
    """Memory that instructions with equal shapes (`_SHAPE` fields) touch, and their cost.

    `on_chip` has the lines on chip. `outside` has the bytes of each access to external memory, and
    whether it writes. `costs` has the cost by offset in external memory, modulo
    `Machine.offset_period`.
    """

    on_chip: tuple[_TouchedLines, ...]
    outside: tuple[tuple[int, bool], ...]
    costs: dict[int, Timing]


class DependencyTracker:
    """Appends instructions to a program, with the waits that their memory accesses need.

    Extents are the boxes of `matloom.arch.isa`, narrowed to the channels touched, so a wait may be
    stronger than needed but never weaker. The program region is constant and the input region is
    only read, so neither needs waits.

    Parameters
    ----------
    machine:
        If given, the costs of instructions are recorded in `costs`, one for each but END.
    """

    def __init__(
        self, config: Config, dram_bytes: dict[Region, int], machine: Machine | None = None
    ):
        self.config = config
        self._timings = None if machine is None else shared_timings(machine)
        self._period = 1 if machine is None else machine.offset_period
        self.instructions: list[Instruction] = []
        self.costs: list[Timing] = []
        self._issued = [0] * len(UNITS)
        self._on_chip = {
            # Most accesses are to whole blocks of channels.
            AddressSpace.SPAD: _Accesses(AddressSpace.SPAD, config.spad_bytes, config.columns),
            AddressSpace.ACC: _Accesses(AddressSpace.ACC, config.acc_entries),
        }
        #: Access patterns of each unit, by the values of the fields in `_SHAPE`.
        self._known: list[dict[tuple[int | None, ...], _AccessPattern]] = [{} for _ in UNITS]
        self._dram: dict[int, _Accesses] = {
            region: _Accesses(AddressSpace.DRAM, size, _DRAM_LINE)
            for region, size in dram_bytes.items()
        }

    def append(self, opcode: Opcode, **values: int) -> Instruction:
        """Append an instruction; return it with its waits."""
        return self.append_fields(opcode, values)

    def append_fields(self, opcode: Opcode, fields: dict[str, int]) -> Instruction:
        """Append an instruction with these fields; return it with its waits.

        This is faster than `append`, because Python passes tens of keyword arguments slowly.
        The instruction keeps the dictionary itself, to which its waits are added.
        """
        instruction, issued = Instruction(opcode, fields), self._issued
        unit = _UNITS[opcode]
        number = issued[unit]
        latest = [_NO_ACCESS] * len(UNITS)
        # Tiles alternate between few places, so most instructions touch the same memory as an
        # earlier one.
        key = tuple(map(fields.get, _SHAPE[opcode]))
        known = self._known[unit].get(key)
        if known is None:
            known = self._known[unit][key] = self._pattern_of(instruction)
        if self._timings is not None:
            offset = fields.get("dram_offset", 0) % self._period
            cost = known.costs.get(offset)
            if cost is None:
                cost = known.costs[offset] = self._timings.of(instruction)
            self.costs.append(cost)
        touched = known.on_chip
        if known.outside and fields["region"] in self._dram:
            touched += self._touched_outside(unit, known.outside, fields)
        for seen, axes, units, mark in touched:
            for other, last in zip(units, _latest(seen, axes).tolist(), strict=True):
                if last > latest[other]:
                    latest[other] = last
            # A unit does not wait for itself.
            mark(number)
        latest[unit] = _NO_ACCESS
        for other, last in enumerate(latest):
            if last != _NO_ACCESS:
                fields[WAIT_FIELDS[other]] = min(issued[other] - last, _LONGEST_WAIT)
        issued[unit] = number + 1
        self.instructions.append(instruction)
        return instruction

    def _pattern_of(self, instruction: Instruction) -> _AccessPattern:
        """Return the memory that instructions of this shape touch."""
        values, unit = instruction.values, _UNITS[instruction.opcode]
        parts, outside = [], []
        for extent in _EXTENTS[instruction.opcode].of(values):
            start, end = values.get(extent.base, 0), extent.end(values.get, self.config)
            if end is None or end <= start:
                continue
            if extent.memory is AddressSpace.DRAM:
                outside.append((end - start, extent.write))
                continue
            part = footprint(extent, instruction, self.config)
            part = StridedRange(start, end - start) if part is None else part.merge_runs()
            parts.append((self._on_chip[extent.memory], part, extent.write))
        shortened = [memory.shorten_lines(part) for memory, part, _write in parts]
        if any(shortened):
            self._known = [{} for _ in UNITS]
        on_chip = [
            memory.touch(unit, memory.lines_of(part), write=write) for memory, part, write in parts
        ]
        return _AccessPattern(tuple(on_chip), tuple(outside), {})

    def _touched_outside(
        self, unit: int, outside: tuple[tuple[int, bool], ...], values: dict[str, int]
    ) -> tuple[_TouchedLines, ...]:
        """Return the lines of a writable region in external memory that an instruction touches.

        `outside` has the size in bytes of each access, and whether it writes; `values` are the
        fields.
        """
        region, start = self._dram[values["region"]], values.get("dram_offset", 0)
        first, found = start // _DRAM_LINE, []
        for size, write in outside:
            lines = StridedRange(first, -(-(start + size) // _DRAM_LINE) - first)
            found.append(region.touch(unit, lines, write=write))
        return tuple(found)

    def end(self) -> None:
        """Append the instruction END, which ends the command buffer."""
        self.instructions.append(Instruction(Opcode.END, {}))
