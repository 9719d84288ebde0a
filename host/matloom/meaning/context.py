"""Inputs and results of an operator's definition on probes (numbers for unknown bytes)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from matloom.arch.config import Config
from matloom.arch.modes import FP32_FORMAT, MAC_MODES, STORAGE
from matloom.ir.attributes import Activation
from matloom.ir.graph import Graph, Node, Tensor
from matloom.ir.scales import activation_range
from matloom.meaning.floats import element_bytes, element_probes
from matloom.meaning.terms import (
    Integers,
    Scale,
    join_words,
    requantise,
    split_words,
)

#: Index of POST's floating-point format, by the NumPy type in which a tensor stores its elements.
FORMATS = {"float32": FP32_FORMAT} | {
    dtype: MAC_MODES.index(mode) for mode, dtype in STORAGE.items()
}


class Unproven(Exception):
    """Raised for an operator without a rule for unknown bytes; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class NodeInputs:
    """A node and the contents of its inputs.

    Members
    -------
    raw:
        The bytes of each input, constants or probes, flat.
    lookup:
        If the first input is the result of a table and no other node reads it, that table and the
        bytes that it is applied to, because one fused table may replace both lookups; else None.
    made:
        List to which `note` appends intermediate bytes and their description, for messages.
    """

    graph: Graph
    node: Node
    config: Config
    raw: tuple[Integers, ...]
    lookup: tuple[Integers, Integers] | None
    made: list[tuple[Integers, str]]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that the node reads."""
        return tuple(self.graph.tensors[number] for number in self.node.inputs)

    @property
    def output(self) -> Tensor:
        """The first output tensor."""
        return self.graph.tensors[self.node.outputs[0]]

    @property
    def is_floating(self) -> bool:
        """Whether the first input holds floating-point numbers."""
        return self.inputs[0].dtype in FORMATS

    def values(self, index: int) -> Integers:
        """Return the elements of an input as numbers or probes (unknowns), in the input's shape."""
        tensor, raw = self.inputs[index], self.raw[index]
        size = tensor.element_bytes
        if size > 1:
            parts = [raw[place::size] for place in range(size)]
            raw = element_probes(parts) if tensor.dtype in FORMATS else join_words(*parts)
        return raw.reshape(tensor.shape)

    def without_zero_point(self, index: int) -> Integers:
        """Return the elements of an input minus its zero point."""
        return self.values(index) - self.inputs[index].zero_point

    def to_bytes(self, results: Integers) -> list[Integers]:
        """Return a list with the bytes of `results`, elements of the output's type.

        Elements of several bytes are split along a new last axis, lowest byte first.
        """
        tensor = self.output
        parts = [results]
        if tensor.dtype in FORMATS:
            parts = element_bytes(results, FORMATS[tensor.dtype], tensor.element_bytes)
        elif tensor.element_bytes == 2:
            parts = list(split_words(results))
        return parts if len(parts) == 1 else [np.stack(parts, axis=-1)]

    def result(
        self,
        sums: Integers,
        multiplier: Any,
        shift: Any,
        activation: Activation = Activation.NONE,
        **changes: Any,
    ) -> Integers:
        """Return the output's elements for sums: scaled, with zero point added, and limited.

        `changes` override members of the `Scale`.
        """
        low, high = activation_range(activation, self.output)
        scale = {"zero": self.output.zero_point, "low": low, "high": high, **changes}
        return requantise(
            sums, 0, Scale(multiplier=multiplier, shift=shift, **scale), self.output_kind
        )

    @property
    def output_kind(self) -> str:
        """Kind of the output's elements, for `requantise`: ``"byte"`` or ``"word"``."""
        return "word" if self.output.element_bytes == 2 else "byte"

    def note(self, values: Integers, label: str) -> Integers:
        """Record intermediate bytes with a label for messages; return them unchanged.

        Return the bytes.
        """
        self.made.append((values.reshape(-1), label))
        return values
