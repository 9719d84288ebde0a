"""Finds the byte of a tensor that a probe represents, for messages of the meaning check."""

from collections.abc import Mapping

import numpy as np

from matloom.ir.graph import Graph
from matloom.meaning.network import Expected
from matloom.meaning.terms import FREE, Integers, is_known


class Places:
    """Index to find the byte, of a tensor or intermediate, that a number (probe) stands for."""

    def __init__(self, graph: Graph, names: Mapping[int, str], expected: Expected) -> None:
        known_bytes = [
            (found, names[number])
            for number, found in expected.bytes_of.items()
            if found is not None and graph.tensors[number].data is None
        ]
        known_bytes += expected.made
        self._names = [name for _found, name in known_bytes]
        sizes = [len(found) for found, _name in known_bytes]
        every = np.concatenate([found for found, _name in known_bytes] or [np.zeros(0, np.int64)])
        order = np.argsort(every, kind="stable")
        self._values = every[order]
        self._tensor = np.repeat(np.arange(len(known_bytes)), sizes)[order]
        starts = np.cumsum([0, *sizes])[:-1]
        self._byte = order - starts[self._tensor] if known_bytes else order

    def is_known(self, values: Integers) -> np.ndarray:
        """Return a mask of the `values` that are constants, or stand for a byte in the index."""
        if not len(self._values):
            return is_known(values)
        at = np.minimum(np.searchsorted(self._values, values), len(self._values) - 1)
        return np.asarray(is_known(values) | (self._values[at] == values))

    def describe(self, value: int) -> str:
        """Return a phrase that names what a number (probe) of the meaning check stands for.

        It may be a constant, a byte of a tensor, a byte that nothing wrote, or none of these.
        """
        if is_known(value):
            return f"the constant {value}"
        at = int(np.searchsorted(self._values, value))
        if at < len(self._values) and self._values[at] == value:
            return f"byte {self._byte[at]} of {self._names[self._tensor[at]]!r}"
        if FREE <= value < 2 * FREE:
            return "a byte that nothing wrote"
        return "a value that occurs in no tensor of the network"
