"""Predicts the cycles of single float layers, as if they were quantised."""

from collections.abc import Sequence

import numpy as np

from matloom.ir.attributes import Attributes, Conv2D, DepthwiseConv2D, FullyConnected
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Node, Op, Quantisation
from matloom.ir.operators import OPERATORS
from matloom.quantiser.factors import LayerPart

#: Arbitrary scales, because cycles do not depend on them.
_DATA = Quantisation(scale=(0.05,), zero_point=(0,))
_OPERATORS: dict[type[Attributes], Op] = {
    Conv2D: Op.CONV_2D,
    DepthwiseConv2D: Op.DEPTHWISE_CONV_2D,
    FullyConnected: Op.FULLY_CONNECTED,
}
_WEIGHTS = Quantisation(scale=(0.01,), zero_point=(0,))


class LayerCycles:
    """Predicted cycles of layers on a configuration; layers of equal shape are compiled once."""

    def __init__(self, config: str) -> None:
        self._config = config
        self._known: dict[object, int] = {}

    def predict(self, shape: tuple[int, ...], parts: Sequence[LayerPart]) -> int:
        """Return the cycles of consecutive layers, of which the first reads an input of `shape`."""
        key = shape, tuple((part.weights.shape, part.attributes) for part in parts)
        if key not in self._known:
            self._known[key] = self._compiled_cycles(shape, parts)
        return self._known[key]

    def with_channels(self, graph: Graph, chain: Sequence[Node], channels: int) -> list[int]:
        """Return the cycles of each layer of a chain with `channels` channels between them."""
        found = []
        for node in chain:
            shape = graph.tensors[node.inputs[0]].shape
            weights = graph.tensors[node.inputs[1]].shape
            if node is not chain[0]:
                shape, weights = (*shape[:-1], channels), (*weights[:-1], channels)
            elif node is not chain[-1]:
                weights = (channels, *weights[1:])
            part = LayerPart(weights=np.zeros(weights), attributes=node.attributes)
            found.append(self.predict(shape, [part]))
        return found

    def _compiled_cycles(self, shape: tuple[int, ...], parts: Sequence[LayerPart]) -> int:
        """Return the predicted cycles of layers in sequence, for an input of a shape."""
        from matloom.runtime import compile

        builder = GraphBuilder("layer")
        data = builder.input("data", shape, "int8", _DATA)
        for part in parts:
            op = _OPERATORS[type(part.attributes)]
            weights = np.ones(part.weights.shape, np.int8)
            bias = np.zeros(weights.shape[OPERATORS[op].weight_axis or 0], np.int32)
            constants = builder.constant(weights, _WEIGHTS), builder.constant(bias)
            data = builder.add(op, [data, *constants], part.attributes)
        return compile(builder.graph(data), self._config, check="none").predicted_cycles
