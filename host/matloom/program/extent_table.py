"""Finds the address ranges (extents) of many instructions at once, as arrays."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.extents import end_function
from matloom.arch.isa import FORMATS, AddressSpace, Extent, Opcode, Region
from matloom.program.instruction_table import InstructionTable

_NO_ADDRESSES = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class ExtentColumn:
    """One address range (extent), for all instructions of an opcode that have it.

    Members
    -------
    numbers:
        Indices of the instructions in the table.
    starts, ends:
        First address and end of the extent of each instruction. float64 holds any legal address
        exactly, and larger ones without overflow.
    regions:
        Region of external memory of each instruction; empty if the opcode has no region.
    """

    opcode: Opcode
    extent: Extent
    numbers: NDArray[np.int64]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    regions: NDArray[np.int64]


def extent_columns(table: InstructionTable, config: Config) -> Iterator[ExtentColumn]:
    """Yield the address ranges (extents) of all instructions, one column for each kind of range.

    Empty ranges are included. They are the same as those of `instruction.extent_end`.
    """
    for opcode, numbers, columns in table.columns():
        everywhere = np.ones(len(numbers), bool)
        for extent in FORMATS[opcode].extents:
            applies = _applies(extent, columns, everywhere)
            if not applies.any():
                continue
            chosen = _FieldColumns(columns, applies)
            # Written for integers; its operations also work on arrays.
            end: Any = end_function(extent.base, extent.terms, ())
            regions = columns["region"][applies] if "region" in columns else _NO_ADDRESSES
            yield ExtentColumn(
                opcode=opcode,
                extent=extent,
                numbers=numbers[applies],
                starts=chosen.get(extent.base, 0),
                ends=end(chosen.get, config),
                regions=regions,
            )


def _applies(
    extent: Extent, columns: Mapping[str, NDArray[np.int64]], everywhere: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return a mask of the instructions to which an extent applies.

    `everywhere` is a mask of all instructions.
    """
    applies = everywhere
    for name, values in extent.only:
        column = columns[name]
        one = column == values[0]
        for value in values[1:]:
            one |= column == value
        applies = applies & one
    return applies


class _FieldColumns:
    """Values of fields, by name, in the instructions that have an extent, as float64."""

    def __init__(
        self, columns: Mapping[str, NDArray[np.int64]], applies: NDArray[np.bool_]
    ) -> None:
        self._columns = columns
        self._applies = slice(None) if applies.all() else applies

    def get(self, name: str, _missing: int) -> NDArray[np.float64]:
        """Return the values of a field, which must be in the format."""
        return self._columns[name][self._applies].astype(np.float64)


def beyond_memory(
    table: InstructionTable, config: Config, region_bytes: Mapping[Region, int]
) -> NDArray[np.int64]:
    """Return the indices of instructions with an extent beyond its memory, ascending."""
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
