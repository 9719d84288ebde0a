"""Access to the file and the graph for readers of operators that become several nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matloom.frontend.tflite.tensors import FileTensors
from matloom.ir.graph import Tensor


@dataclass(frozen=True)
class FileItem:
    """An operator of the file: its index, name and table, and the numbers of its tensors."""

    index: int
    name: str
    table: Any
    inputs: Sequence[int]
    outputs: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Additions:
    """The tensors of a file, and how they and others get into the graph.

    Members
    -------
    known:
        The tensors of the file.
    use, add:
        `use` puts a tensor of the file into the graph, `add` one that the file does not have.
    hold:
        Keeps a tensor's value between calls, by its numbers before and after a call.
    """

    known: FileTensors
    use: Callable[[int], int]
    add: Callable[[Tensor], int]
    hold: Callable[[Tensor, int, int], None]
