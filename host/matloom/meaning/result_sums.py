"""Sums by the tables of POST on probes: they are those of an ADD with the same results."""

from dataclasses import dataclass, field

import numpy as np

from matloom.arch.numerics import wrap32
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.ir.scales import activation_range, addition
from matloom.kernels.result_sums import every_sum, sums_of
from matloom.meaning.errors import MeaningError
from matloom.meaning.terms import Integers, Scale, is_known, requantise


@dataclass(frozen=True, kw_only=True)
class ResultSums:
    """Sums by tables, as the ADDs of a network define them.

    Members
    -------
    found:
        For each table, by its bytes, the ADD of which it makes all 65,536 results, and whether
        results are its second operand.
    known:
        The results of ADDs, for all bytes, by scales, zero points and activation.
    """

    graph: Graph
    found: dict[bytes, tuple[Node, bool]] = field(default_factory=dict)
    known: dict[tuple[object, ...], tuple[Node, Array]] = field(default_factory=dict)

    def apply(self, tables: Integers, results: Integers, others: Integers) -> Integers:
        """Return the sums of results and others, by tables (n, 256) that must be alike."""
        if not is_known(tables).all() or (tables != tables[0]).any():
            raise MeaningError("entries of a table of sums must be constants, alike in all lanes")
        node, swapped = self._node_of(tables[0].astype(np.uint8))
        operands = (others, results) if swapped else (results, others)
        scales = addition(self.graph, node)
        total: Integers = np.zeros(results.shape, np.int64)
        for number, pair, values in zip(node.inputs, scales.inputs, operands, strict=True):
            multiplier, shift = pair
            scale = Scale(multiplier=multiplier, shift=shift, pre_shift=scales.left_shift)
            centred = values - self.graph.tensors[number].zero_point
            total = total + requantise(centred, 0, scale, "sum")
        output = self.graph.tensors[node.output]
        low, high = activation_range(node.attributes_as(Arithmetic).activation, output)
        multiplier, shift = scales.output
        scale = Scale(
            multiplier=multiplier, shift=shift, zero=output.zero_point, low=low, high=high
        )
        return requantise(np.asarray(wrap32(total)), 0, scale)

    def _node_of(self, table: Array) -> tuple[Node, bool]:
        """Return the ADD of a table, and whether results are its second operand."""
        key = table.tobytes()
        if key not in self.found:
            made = every_sum(table)
            for node, sums in self._adds().values():
                for swapped, wanted in enumerate((sums, sums.T)):
                    if np.array_equal(made, wanted):
                        self.found[key] = node, bool(swapped)
            if key not in self.found:
                raise MeaningError("a table of sums must make the results of an ADD")
        return self.found[key]

    def _adds(self) -> dict[tuple[object, ...], tuple[Node, Array]]:
        """Return an ADD for each set of scales, and its results."""
        for node in self.graph.nodes if not self.known else ():
            tensors = [self.graph.tensors[number] for number in (*node.inputs, *node.outputs)]
            if node.op is Op.ADD and {tensor.dtype for tensor in tensors} == {"int8"}:
                key = (*(tensor.quantisation for tensor in tensors), node.attributes)
                if key not in self.known:
                    self.known[key] = node, sums_of(self.graph, node)
        return self.known
