"""Finds the few instructions that may be illegal, quickly, on arrays of fields.

Whether accesses stay within memory is checked by `accesses` or `extent_table`.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.isa import UNITS, WRITABLE_REGIONS, Opcode
from matloom.program.instruction_table import InstructionTable

_Numbers = NDArray[np.int64]


def doubtful_instructions(table: InstructionTable, config: Config) -> set[int]:
    """Return the indices of instructions whose fields, region or waits need a closer check."""
    found = [*_illegal_stores(table), *_waits_too_far_back(table)]
    return {
        *table.doubtful_indices(config),
        *(number for each in found for number in each.tolist()),
    }


def _illegal_stores(table: InstructionTable) -> Iterator[_Numbers]:
    """Yield the indices of STOREs that write to read-only regions of external memory."""
    for opcode, numbers, columns in table.columns():
        if opcode is Opcode.STORE:
            yield numbers[~np.isin(columns["region"], WRITABLE_REGIONS)]


def _waits_too_far_back(table: InstructionTable) -> Iterator[_Numbers]:
    """Yield the indices of instructions that wait for more instructions than precede them."""
    units = {opcode: numbers for opcode, numbers, _columns in table.columns()}
    for _opcode, numbers, columns in table.columns():
        for unit in UNITS:
            waits = columns.get(f"wait_{unit.name.lower()}")
            if waits is not None and waits.any():
                yield numbers[waits > np.searchsorted(units.get(unit, ()), numbers)]
