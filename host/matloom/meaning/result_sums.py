"""Model of sums of two bytes that POST looks up in a table, as an ADD defines them."""

from dataclasses import dataclass, field

import numpy as np

from matloom.arch.numerics import wrap32
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Graph, Node, Op
from matloom.ir.scales import activation_range, addition_scales
from matloom.kernels.result_sums import add_results, table_sums
from matloom.meaning.errors import MeaningError
from matloom.meaning.terms import Integers, RequantisedTerm, Scale, is_known


@dataclass(frozen=True, kw_only=True)
class _Addition:
    """An ADD of a layer's results and other bytes, on probes (numbers for unknown bytes).

    Members
    -------
    operands:
        For the results, then for the other bytes: the zero point, and the scaling of differences
        from it.
    total:
        Requantisation of the sum.
    """

    operands: tuple[tuple[int, RequantisedTerm], ...]
    total: RequantisedTerm

    def apply(self, results: Integers, others: Integers) -> Integers:
        """Return probes (numbers for unknown bytes) for sums of two arrays of bytes."""
        first, second = (
            term.apply(values - zero)
            for (zero, term), values in zip(self.operands, (results, others), strict=True)
        )
        return self.total.apply(np.asarray(wrap32(first + second)))


@dataclass(frozen=True, kw_only=True)
class ResultSums:
    """Sums of two bytes that POST computes with tables, as the ADDs of a network define them.

    Members
    -------
    found:
        The ADD whose 65,536 results a table reproduces, by the bytes of the table.
    known:
        ADDs by the bytes of their 65,536 results, each with whether POST's results are the second
        operand; empty until first used.
    """

    graph: Graph
    found: dict[bytes, _Addition] = field(default_factory=dict)
    known: dict[bytes, tuple[Node, bool]] = field(default_factory=dict)

    def apply(self, tables: Integers, results: Integers, others: Integers) -> Integers:
        """Return the sums of `results` and `others` that `tables` (n, 256) give, as probes.

        Probes are numbers for unknown bytes.

        Raises
        ------
        MeaningError
            The tables differ from each other, are not constant, or match no ADD of the network.
        """
        if not is_known(tables).all() or (tables != tables[0]).any():
            raise MeaningError("entries of a table of sums must be constants, alike in all lanes")
        table = tables[0].astype(np.uint8)
        key = table.tobytes()
        if key not in self.found:
            same = self._adds().get(table_sums(table).tobytes())
            if same is None:
                raise MeaningError("a table of sums must make the results of an ADD")
            self.found[key] = self._addition(*same)
        return self.found[key].apply(results, others)

    def _addition(self, node: Node, swapped: bool) -> _Addition:
        """Return the definition of an ADD: the scales of both operands and of the sum.

        `swapped` says that POST's results are its second operand.
        """
        scales = addition_scales(self.graph, node)
        operands = []
        for number, (multiplier, shift) in zip(node.inputs, scales.inputs, strict=True):
            scale = Scale(multiplier=multiplier, shift=shift, pre_shift=scales.left_shift)
            term = RequantisedTerm(bias=0, scale=scale, kind="sum")
            operands.append((self.graph.tensors[number].zero_point, term))
        output = self.graph.tensors[node.output]
        low, high = activation_range(node.attributes_as(Arithmetic).activation, output)
        multiplier, shift = scales.output
        scale = Scale(
            multiplier=multiplier, shift=shift, zero=output.zero_point, low=low, high=high
        )
        return _Addition(
            operands=tuple(reversed(operands) if swapped else operands),
            total=RequantisedTerm(bias=0, scale=scale),
        )

    def _adds(self) -> dict[bytes, tuple[Node, bool]]:
        """Return the member `known`, after filling it from the int8 ADDs of the network."""
        seen: set[tuple[object, ...]] = set()
        for node in self.graph.nodes if not self.known else ():
            tensors = [self.graph.tensors[number] for number in (*node.inputs, *node.outputs)]
            if node.op is Op.ADD and {tensor.dtype for tensor in tensors} == {"int8"}:
                key = (*(tensor.quantisation for tensor in tensors), node.attributes)
                if key not in seen:
                    seen.add(key)
                    sums = add_results(self.graph, node)
                    self.known[sums.tobytes()] = node, False
                    self.known[sums.T.tobytes()] = node, True
        return self.known
