"""Which of many instructions may be illegal, in arrays: no other is, and these are few.

Memories that an instruction leaves are another question: `accesses`, or `extent_table`.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.isa import UNITS, WRITABLE_REGIONS, Opcode
from matloom.program.instruction_table import InstructionTable

__all__ = ["suspects"]

_Numbers = NDArray[np.int64]


def suspects(table: InstructionTable, config: Config) -> set[int]:
    """Return the numbers of instructions whose fields, region or waits must be looked at."""
    found = [*_stores(table), *_waits(table)]
    return {*table.suspects(config), *(number for each in found for number in each.tolist())}


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
            if waits is not None and waits.any():
                yield numbers[waits > np.searchsorted(units.get(unit, ()), numbers)]
