"""The file and the graph, for functions that convert one operator of the file to several nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matloom.frontend.tflite.tensors import FileTensors
from matloom.ir.graph import Tensor


@dataclass(frozen=True)
class FileItem:
    """An operator of the file: its index, name, inputs and outputs.

    Members
    -------
    index, name:
        Index in the subgraph, and name of the kind of operator.
    table:
        The operator's flatbuffer table.
    inputs, outputs:
        Tensor numbers; -1 for an absent input.
    """

    index: int
    name: str
    table: Any
    inputs: Sequence[int]
    outputs: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Additions:
    """Access to the tensors of a file, and to the graph under construction.

    Members
    -------
    known:
        The tensors of the file.
    use:
        Adds a tensor of the file to the graph, by its number, which it returns.
    add:
        Adds a tensor that the file does not have to the graph; returns its number.
    hold:
        Adds a variable, which keeps a tensor's value between calls. The two
        numbers identify the tensors that hold the value before and after a call.
    """

    known: FileTensors
    use: Callable[[int], int]
    add: Callable[[Tensor], int]
    hold: Callable[[Tensor, int, int], None]
