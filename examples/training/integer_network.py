"""A quantised network with trainable float weights, rounded to integers whenever it runs.

Its results come from Matloom's kernels, which define what the engine computes: the same integers,
times their scales, rather than an imitation in floats. It needs NumPy and Matloom only.
"""

from dataclasses import replace

import numpy as np

from matloom.ir.graph import Array, Graph, Node
from matloom.ir.operators import OPERATORS
from matloom.quantiser.integers import integers_of, real
from matloom.quantiser.precisions import NARROW
from matloom.quantiser.run_nodes import run_nodes

#: Largest weight, by the precision of convolutions and dense layers; others have eight bits.
_MOST = {"i8xi8": 127, "i8xi4": 7}


class IntegerNetwork:
    """A network that `matloom.quantise` made; its scales do not change.

    Members
    -------
    weights:
        Weights and biases as float64, by tensor number, which a training may change.
    """

    def __init__(self, graph: Graph, precision: str) -> None:
        self._graph = graph
        self._narrow = _MOST[precision]
        self.layers = [node for node in graph.nodes if OPERATORS[node.op].weight_axis is not None]
        self.weights = {
            number: graph.tensors[number].data * self._scales(node, place)
            for node in self.layers
            for place, number in enumerate(node.inputs[1:])
        }

    def _scales(self, node: Node, place: int) -> Array:
        """Return the scales of a layer's weights (`place` 0) or bias (1), to multiply them by."""
        data, weights = (self._graph.tensors[number] for number in node.inputs[:2])
        assert weights.quantisation is not None
        scales = np.array(weights.quantisation.scale)
        if place:
            return scales * data.scale
        axis = weights.quantisation.axis
        shape = [1] * len(weights.shape)
        if axis is not None:
            shape[axis] = -1
        return scales.reshape(shape)

    def _largest_weight(self, node: Node) -> int:
        """Return the largest magnitude of a layer's integer weights."""
        return self._narrow if node.op in NARROW else _MOST["i8xi8"]

    def graph(self) -> Graph:
        """Return the network with the current weights, rounded to integers."""
        tensors = dict(self._graph.tensors)
        for node in self.layers:
            for place, number in enumerate(node.inputs[1:]):
                tensor = tensors[number]
                most = np.iinfo(np.int32).max // 2 if place else self._largest_weight(node)
                integers = np.rint(self.weights[number] / self._scales(node, place))
                data = np.clip(integers, -most, most).astype(tensor.dtype)
                tensors[number] = replace(tensor, data=data)
        return replace(self._graph, tensors=tensors)

    def rounded_weights(self) -> dict[int, Array]:
        """Return the weights and biases after rounding, as real numbers by tensor number."""
        graph = self.graph()
        return {
            number: graph.tensors[number].data * self._scales(node, place)
            for node in self.layers
            for place, number in enumerate(node.inputs[1:])
        }

    def values(self, samples: Array) -> dict[int, Array]:
        """Return all tensors as real numbers, float32 (samples, *shape), by tensor number.

        Parameters
        ----------
        samples:
            The network's only input, in real numbers.
        """
        graph = self.graph()
        (number,) = graph.inputs
        given = {number: integers_of(graph.tensors[number], samples)}
        found = dict(given)
        for _at, node, known in run_nodes(graph, given):
            found.update((made, known[made]) for made in node.outputs)
        return {at: real(graph.tensors[at], array) for at, array in found.items()}
