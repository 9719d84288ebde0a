"""State of the engine's memories during the meaning check."""

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
    """Contents of an engine's memories; each byte is an integer, a constant or a probe (`terms`).

    Members
    -------
    spad, regions:
        Scratchpad and external memory, one float64 per byte, because matrix products of float64 are
        fastest.
    accumulators:
        Sums (entries, columns), modulo 2**32.
    table:
        POST's byte tables (tables, 256), with an entry for each unsigned byte; column n uses table
        n modulo the number of tables.
    exponentials:
        Bytes (1024,) of SOFTMAX's table of exponentials.
    sums:
        Sums of two bytes that POST computes with `table`.
    written:
        Results of the last POST, before they are split into bytes; None if it did not write to the
        scratchpad.
    watch:
        Called after each instruction, if not None, with its index and an instruction that does the
        same on chip (`machine._Engine`).
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
        """Return a copy of the memories, without `written`, `watch` and `observe`.

        Both share the program's image.
        """
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


def strided_view(
    memory: NDArray[np.float64], first: int, shape: Sequence[int], steps: Sequence[int]
) -> NDArray[np.float64]:
    """Return a strided view of a flat memory from byte `first` on; it must lie inside the memory.

    `steps` are the distances in bytes of the memory along each axis.
    """
    assert first >= 0
    size = memory.itemsize
    strides = [step * size for step in steps]
    # Raises if a positive step leaves the memory; `as_strided` would not, and is slower.
    return np.ndarray(shape, memory.dtype, memory, first * memory.strides[0], strides)
