"""Operators of ONNX that become operators of the graph, and the others, which stay opaque."""

from typing import Any

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.moves import MOVES
from matloom.frontend.onnx.quantised import Model, layer_of
from matloom.frontend.onnx.registered import add_registered, registered_node
from matloom.frontend.onnx.values import FileValue, Values
from matloom.frontend.onnx.weighted import convert_layer
from matloom.frontend.opaque import OpaqueOperator
from matloom.ir.attributes import ONNX_INTERPRETERS
from matloom.kernels.onnx_model import captured

__all__ = ["Conversion", "operator_name"]


def operator_name(node: Any) -> str:
    """Return an operator's name, with its domain where that is not ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


class Conversion:
    """One model's operators, converted in order.

    `values` has the result. `layers` counts the layers for the engine.
    """

    def __init__(self, graph: Any, numbers: dict[str, int], known: dict[str, FileValue]) -> None:
        self.graph, self.numbers = graph, numbers
        self.model = Model(graph)
        self.values = Values(numbers, known)
        self.layers = 0
        self._reasons: dict[int, str] = {}

    def run(self, inputs: list[str], outputs: list[str]) -> list[int]:
        """Convert all operators; return the numbers of the outputs."""
        for name in inputs:
            self.values.provided(name)
        for at, node in enumerate(self.graph.node):
            self._convert(at, node)
        return [self.values.wanted(name) for name in outputs]

    def _convert(self, at: int, node: Any) -> None:
        own = registered_node(node)
        try:
            if own is not None:
                add_registered(self.values, self.model, own, node, at)
                self.layers += 1
                return
            if self._on_engine(node):
                return
        except Unsupported as unsupported:
            self._reasons[id(node)] = str(unsupported)
        self._opaque(at, node)

    def _on_engine(self, node: Any) -> bool:
        """Convert an operator, if it is one that the graph has; return whether it is."""
        layer = layer_of(self.model, node)
        if layer is not None:
            for name in (layer.data, layer.output):
                if name not in self.values.known:
                    raise Unsupported(f"has {name!r}, whose shape only a run tells")
                if self.values.known[name].dtype not in ("int8", "uint8"):
                    raise Unsupported(f"has {name!r} of {self.values.known[name].dtype}")
            convert_layer(self.values, layer)
            self.layers += 1
            return True
        known = self.values.known
        if node.op_type not in MOVES or not node.input or node.domain not in ("", "ai.onnx"):
            return False
        source, made = node.input[0], node.output[0]
        if source not in known or made not in known or not known[source].held:
            return False
        MOVES[node.op_type](self.values, node, source, made)
        return True

    def _opaque(self, at: int, node: Any) -> None:
        """Leave an operator to ONNX Runtime."""
        inputs = []
        for name in captured(node):
            if name in self.model.constants:
                inputs.append(self.numbers[name])
            elif name in self.values.known:
                inputs.append(self.values.wanted(name))
            elif name in self.numbers:
                inputs.append(self.numbers[name])
        name = operator_name(node)
        self.values.items.append(
            OpaqueOperator(
                name=name,
                index=at,
                inputs=tuple(inputs),
                outputs=tuple(self.values.made_outside(made) for made in node.output if made),
                reason=f"{name} {self._reasons.get(id(node), 'has no kernel here')}",
                interpreters=ONNX_INTERPRETERS,
            )
        )
