"""Errors of a network layer by layer: wrong elements, the largest error, and noise."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from rich.table import Table

from matloom.ir.attributes import Reference
from matloom.ir.graph import Array, Node, Op, Tensor, short_name
from matloom.terminal.tables import layer_table


@dataclass(frozen=True, kw_only=True)
class OperatorErrors:
    """Errors of one operator's outputs, over all samples.

    Members
    -------
    operator:
        Name of the operator, as `operator_name` returns it.
    elements, different:
        Number of elements that were compared, and of those that differ.
    largest:
        Largest absolute error, in real numbers.
    signal, noise:
        Sums of squares of the expected values and of the errors, in real numbers.
    """

    operator: str
    tensor: str = ""
    elements: int = 0
    different: int = 0
    largest: float = 0.0
    signal: float = 0.0
    noise: float = 0.0

    @property
    def sqnr_db(self) -> float | None:
        """Signal-to-noise ratio in decibels; None without noise or without a signal."""
        if not self.noise or not self.signal:
            return None
        return 10 * math.log10(self.signal / self.noise)

    def with_more(self, wrong: Array, expected: Array, actual: Array) -> "OperatorErrors":
        """Return new figures that include another sample.

        `wrong` is the mask of differing elements; `expected` and `actual` are real numbers.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.where(wrong, actual - expected, 0.0)
        largest = float(np.abs(error).max(initial=0.0))
        return replace(
            self,
            elements=self.elements + wrong.size,
            different=self.different + int(wrong.sum()),
            largest=max(self.largest, largest),
            signal=self.signal + float(np.square(np.abs(expected)).sum()),
            noise=self.noise + float(np.square(np.abs(error)).sum()),
        )


def real_numbers(tensor: Tensor, array: Array) -> Array:
    """Return the real numbers, as float64, that a tensor's elements represent.

    Complex numbers stay complex.
    Elements without quantisation, or with a scale for each channel, are returned unscaled.
    """
    numbers: Array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    quantisation = tensor.quantisation
    if quantisation is None or len(quantisation.scale) != 1:
        return numbers
    return (numbers - tensor.zero_point) * tensor.scale


def operator_name(node: Node) -> str:
    """Return the name of an operator; of several that an interpreter runs as one, the first."""
    if node.op is not Op.REFERENCE:
        return str(node.op)
    first, *others = node.attributes_as(Reference).operators
    return f"{first} and {len(others)} more" if others else first


def layer_errors(title: str, layers: Iterable[OperatorErrors]) -> Table:
    """Return a table of the layers' errors, without layers that were not compared."""
    figures = ("elements", "different", "largest\nerror", "SQNR,\ndB")
    table = layer_table(title, ("tensor", "operator"), figures, spare=figures[:1])
    for layer in layers:
        if layer.elements:
            table.add_row(
                short_name(layer.tensor),
                layer.operator,
                f"{layer.elements:,}",
                f"{layer.different:,}",
                f"{layer.largest:.3g}" if layer.different else "0",
                "" if layer.sqnr_db is None else f"{layer.sqnr_db:.1f}",
            )
    return table
