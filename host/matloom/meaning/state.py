"""Contents of the engine's memories while a program's meaning is checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Region
from matloom.meaning.terms import Integers

__all__ = ["Observe", "State", "view"]


@dataclass(eq=False)
class State:
    """Memories of an engine, a number for each byte (`terms`), all of them exact integers.

    Members
    -------
    spad, regions:
        float64, because products of matrices are fastest in it.
    accumulators:
        (entries, columns), modulo 2**32.
    table:
        (256,), the entry of each byte, unsigned.
    written:
        What the last POST wrote into the scratchpad.
    watch:
        Called after each instruction with its number; None for nobody.
    observe:
        Called before the first instruction with the state and all instructions; returns `watch`.
    """

    config: Config
    spad: NDArray[np.float64]
    accumulators: Integers
    table: Integers
    regions: dict[Region, NDArray[np.float64]]
    written: Integers | None = None
    watch: Callable[[int, Instruction], None] | None = None
    observe: "Observe | None" = None

    def copy(self) -> "State":
        """Return another engine with the same contents; the program's image, both have together."""
        return State(
            config=self.config,
            spad=self.spad.copy(),
            accumulators=self.accumulators.copy(),
            table=self.table.copy(),
            regions={
                region: held if region is Region.PROGRAM else held.copy()
                for region, held in self.regions.items()
            },
        )


#: Told of a command buffer before it runs; returns what is called after each instruction.
Observe = Callable[[State, list[Instruction]], Callable[[int, Instruction], None]]


def view(
    memory: NDArray[np.float64], first: int, shape: Sequence[int], steps: Sequence[int]
) -> NDArray[np.float64]:
    """Return a view of a flat memory from `first` on; it must lie within."""
    assert first >= 0
    size = memory.itemsize
    strides = [step * size for step in steps]
    # Raises where a positive step leaves the memory; `as_strided` would not, and takes longer.
    return np.ndarray(shape, memory.dtype, memory, first * memory.strides[0], strides)
