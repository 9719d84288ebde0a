"""Contents of the engine's memories during the meaning check."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Region
from matloom.meaning.result_sums import ResultSums
from matloom.meaning.terms import Integers
from matloom.program.instruction_table import InstructionTable


@dataclass(eq=False)
class State:
    """Memories of an engine, with an exact integer for each byte (`terms`).

    Members
    -------
    spad, regions:
        float64, in which matrix products are fastest.
    accumulators:
        (entries, columns), modulo 2**32.
    table:
        (tables, 256): the entry for each unsigned byte, alike for all columns or by column.
    exponentials:
        (1024,): the bytes of SOFTMAX's table of exponentials.
    sums:
        What tables make of results and other bytes.
    written:
        Result of the last POST in the scratchpad.
    watch:
        Called after each instruction with its number, and one that does the same at the same places
        on chip; may be None.
    observe:
        Called before the first instruction, with the state and all instructions; returns `watch`.
    """

    config: Config
    spad: NDArray[np.float64]
    accumulators: Integers
    table: Integers
    exponentials: Integers
    regions: dict[Region, NDArray[np.float64]]
    sums: ResultSums
    written: Integers | None = None
    watch: Callable[[int, Instruction], None] | None = None
    observe: "Observe | None" = None

    def copy(self) -> "State":
        """Return a copy of the engine; both share the program's image."""
        return State(
            config=self.config,
            spad=self.spad.copy(),
            accumulators=self.accumulators.copy(),
            table=self.table.copy(),
            exponentials=self.exponentials.copy(),
            regions={
                region: held if region is Region.PROGRAM else held.copy()
                for region, held in self.regions.items()
            },
            sums=self.sums,
        )


#: Called before a command buffer runs; returns the function to call after each instruction.
Observe = Callable[[State, InstructionTable], Callable[[int, Instruction], None]]


def view(
    memory: NDArray[np.float64], first: int, shape: Sequence[int], steps: Sequence[int]
) -> NDArray[np.float64]:
    """Return a strided view of a flat memory from `first`; it must lie inside."""
    assert first >= 0
    size = memory.itemsize
    strides = [step * size for step in steps]
    # Raises if a positive step leaves the memory; `as_strided` would not, and is slower.
    return np.ndarray(shape, memory.dtype, memory, first * memory.strides[0], strides)
