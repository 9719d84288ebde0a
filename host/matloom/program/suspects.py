"""Which of many instructions may be illegal, in arrays: no other is, and these are few."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.isa import UNITS, WRITABLE_REGIONS, AddressSpace, Opcode, Region
from matloom.program.extent_table import ExtentColumn, beyond_memory, extent_columns
from matloom.program.instruction_table import InstructionTable

__all__ = ["suspects"]

_Numbers = NDArray[np.int64]


def suspects(
    table: InstructionTable, config: Config, region_bytes: Mapping[Region, int]
) -> list[int]:
    """Return the numbers of instructions that `verify` must look at one by one, in order."""
    found = [
        np.array(table.suspects(config), np.int64),
        beyond_memory(table, config, region_bytes),
        *_stores(table),
        *_waits(table),
        *_overlapping(table, config),
    ]
    numbers: list[int] = np.unique(np.concatenate(found)).tolist()
    return numbers


def _stores(table: InstructionTable) -> Iterator[_Numbers]:
    """Yield the STOREs to regions that are only read."""
    for opcode, numbers, columns in table.columns():
        if opcode is Opcode.STORE:
            yield numbers[~np.isin(columns["region"], WRITABLE_REGIONS)]


def _waits(table: InstructionTable) -> Iterator[_Numbers]:
    """Yield the instructions that wait for more than were issued before."""
    units = {opcode: numbers for opcode, numbers, _columns in table.columns()}
    for _opcode, numbers, columns in table.columns():
        for unit in UNITS:
            waits = columns.get(f"wait_{unit.name.lower()}")
            if waits is not None:
                yield numbers[waits > np.searchsorted(units.get(unit, ()), numbers)]


def _overlapping(table: InstructionTable, config: Config) -> Iterator[_Numbers]:
    """Yield the instructions that write bytes of the scratchpad which they read."""
    on_chip: dict[Opcode, list[ExtentColumn]] = {}
    for column in extent_columns(table, config):
        if column.extent.memory is AddressSpace.SPAD:
            on_chip.setdefault(column.opcode, []).append(column)
    for columns in on_chip.values():
        for write in (each for each in columns if each.extent.write):
            for read in (each for each in columns if not each.extent.write):
                both, mine, other = np.intersect1d(
                    write.numbers, read.numbers, assume_unique=True, return_indices=True
                )
                apart = read.ends[other] <= write.starts[mine]
                apart |= write.ends[mine] <= read.starts[other]
                yield both[~apart]
