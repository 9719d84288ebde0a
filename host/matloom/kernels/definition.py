"""Computes any tensor of a graph with the operators' kernels, which define the right results."""

from collections.abc import Mapping, Sequence

from matloom.arch.modes import STORAGE
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.kernels.float_layer import float_layer, matrix_product
from matloom.kernels.interpreter import node_inputs, run_node
from matloom.kernels.reference import ReferenceRun


class Definition:
    """The tensors of a graph, computed on demand; opaque operators keep their state.

    Parameters
    ----------
    float_rows:
        Number of elements per step of a layer in a floating-point mode, which determine the order
        of its sums.
    """

    def __init__(self, graph: Graph, float_rows: int) -> None:
        self.graph, self._float_rows = graph, float_rows
        self._known: dict[int, Array] = {}
        self._opaque: dict[int, ReferenceRun] = {}

    def reset(self, inputs: Mapping[int, Array]) -> None:
        """Discard all tensors, and set those in `inputs`, by tensor number."""
        self._known = dict(inputs)

    def replace(self, number: int, array: Array) -> None:
        """Set the values of a tensor; operators that run afterwards use them."""
        self._known[number] = array

    def value(self, number: int) -> Array:
        """Return a tensor by number, after running the operators that it needs."""
        data = self.graph.tensors[number].data
        if data is not None:
            return data
        if number not in self._known:
            for at in self.needed_nodes([number]):
                self._run(at)
        return self._known[number]

    def needed_nodes(self, numbers: Sequence[int]) -> list[int]:
        """Return the ascending indices of the nodes that must still run to compute these tensors.

        `numbers` are tensor numbers.
        """
        found: set[int] = set()
        wanted = list(numbers)
        while wanted:
            tensor = wanted.pop()
            if tensor in self._known or self.graph.tensors[tensor].data is not None:
                continue
            at = self.graph.producers[tensor]
            if at not in found:
                found.add(at)
                wanted.extend(self.graph.nodes[at].inputs)
        return sorted(found)

    def _run(self, index: int) -> None:
        """Compute a node and keep those of its outputs that are not known yet."""
        node = self.graph.nodes[index]
        for number, array in self._outputs(index, node).items():
            self._known.setdefault(number, array)

    def _outputs(self, index: int, node: Node) -> dict[int, Array]:
        """Return a node's outputs, by tensor number."""
        inputs = node_inputs(self.graph, node, self._known)
        if node.op is Op.REFERENCE:
            if index not in self._opaque:
                self._opaque[index] = ReferenceRun(self.graph, node)
            return dict(zip(node.outputs, self._opaque[index].run(inputs), strict=True))
        if node.op is Op.MATRIX_PRODUCT:
            return {node.output: matrix_product(self.graph, node, inputs, self._float_rows)}
        if getattr(node.attributes, "mode", None) in STORAGE:
            return {node.output: float_layer(self.graph, node, inputs, self._float_rows)}
        return run_node(self.graph, node, self._known)
