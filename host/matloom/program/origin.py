"""Origin of a program, for those who ask for more than it computes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matloom.ir.graph import Graph

if TYPE_CHECKING:
    from matloom.program.program import Program

__all__ = ["Origin"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Origin:
    """The network of a program, known where it was compiled: no file holds it.

    Members
    -------
    source:
        The network as it was given.
    graph:
        The network that the program computes: layers in the number formats of its precision.
    prepared:
        The same after all passes, in which each step reads and makes tensors.
    numbers:
        The number of each tensor by its name in the program, the same in all graphs that have it.
    with_outputs:
        Compiles the network again, with these tensors of `source` as outputs after its own.
    """

    source: Graph
    graph: Graph
    prepared: Graph
    numbers: Mapping[str, int]
    with_outputs: Callable[[Sequence[int]], "Program"]
