"""The extents of many instructions at a time: which memory, from where to where."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.extents import end_function
from matloom.arch.isa import FORMATS, AddressSpace, Extent, Opcode, Region
from matloom.program.instruction_table import InstructionTable

__all__ = ["ExtentColumn", "beyond_memory", "extent_columns"]


@dataclass(frozen=True, eq=False)
class ExtentColumn:
    """One extent of all instructions of an opcode to which it applies.

    Members
    -------
    numbers:
        Of the instructions.
    starts, ends:
        float64, in which ends too large for any memory are so, too, and all others exact.
    regions:
        Of external memory; 0 for a memory on chip.
    """

    opcode: Opcode
    extent: Extent
    numbers: NDArray[np.int64]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    regions: NDArray[np.int64]


def extent_columns(table: InstructionTable, config: Config) -> Iterator[ExtentColumn]:
    """Yield the extents of all instructions (`instruction.extent_end`), empty ones too."""
    for opcode, numbers, columns in table.columns():
        for extent in FORMATS[opcode].extents:
            applies = np.ones(len(numbers), bool)
            for name, values in extent.only:
                applies &= np.isin(columns[name], np.array(values, np.int64))
            if not applies.any():
                continue
            chosen = {name: values[applies].astype(np.float64) for name, values in columns.items()}
            # Made for integers; its operations are those of arrays, too.
            end: Any = end_function(extent.base, extent.terms, ())
            nothing = np.zeros(len(next(iter(chosen.values()))))
            yield ExtentColumn(
                opcode=opcode,
                extent=extent,
                numbers=numbers[applies],
                starts=chosen[extent.base],
                ends=nothing + end(chosen.get, config),
                regions=columns.get("region", np.zeros(len(numbers), np.int64))[applies],
            )


def beyond_memory(
    table: InstructionTable, config: Config, region_bytes: Mapping[Region, int]
) -> NDArray[np.int64]:
    """Return the numbers of instructions with an extent that ends beyond its memory, in order."""
    sizes = np.zeros(max(Region) + 1)
    for region, size in region_bytes.items():
        sizes[region] = size
    capacity = {AddressSpace.SPAD: config.spad_bytes, AddressSpace.ACC: config.acc_entries}
    found = [np.empty(0, np.int64)]
    for column in extent_columns(table, config):
        memory = column.extent.memory
        limit = sizes[column.regions] if memory is AddressSpace.DRAM else capacity[memory]
        found.append(column.numbers[column.ends > limit])
    return np.unique(np.concatenate(found))
