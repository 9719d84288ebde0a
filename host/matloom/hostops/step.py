"""Runs one host step of a Program on the kernels, from the step's own description."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from matloom.hostops.interpreter import run_node
from matloom.ir.attributes import Activation, Attributes, Padding
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.operators import OPERATORS
from matloom.program import HostStep, Program, ProgramError, TensorInfo

__all__ = ["HostSteps"]


class HostSteps:
    """The host steps of one program; each becomes a graph of one node, once.

    Errors
    ------
    ProgramError
        A step names an operator without a kernel, or a tensor that the program does not know.
    """

    def __init__(self, program: Program) -> None:
        self._tensors = {
            info.name: info for info in (*program.tensors, *program.inputs, *program.outputs)
        }
        self._graphs = {
            id(step): self._make_graph(step) for step in program.steps if isinstance(step, HostStep)
        }

    def run(self, step: HostStep, known: Mapping[str, Array]) -> dict[str, Array]:
        """Return the step's outputs by name, for its inputs among `known`."""
        graph, node = self._graphs[id(step)]
        arrays = {number: known[name] for number, name in enumerate(step.inputs)}
        return {step.outputs[0]: run_node(graph, node, arrays)}

    def _make_graph(self, step: HostStep) -> tuple[Graph, Node]:
        if step.operator not in list(Op):
            raise ProgramError(f"a host step's operator must have a kernel, not {step.operator!r}")
        operator = Op(step.operator)
        names = (*step.inputs, *step.outputs)
        inputs, outputs = tuple(range(len(step.inputs))), tuple(range(len(step.inputs), len(names)))
        node = Node(
            op=operator,
            inputs=inputs,
            outputs=outputs,
            attributes=_attributes(OPERATORS[operator].attributes, step.attributes),
            index=0,
        )
        tensors = {number: self._tensor(name) for number, name in enumerate(names)}
        graph = Graph(name="", inputs=inputs, outputs=outputs, tensors=tensors, nodes=(node,))
        return graph, node

    def _tensor(self, name: str) -> Tensor:
        info = self._tensors.get(name)
        if info is None:
            raise ProgramError(f"a host step's tensors must be the program's, not {name!r}")
        return Tensor(
            name=name,
            shape=info.shape,
            dtype=info.dtype,
            quantisation=_quantisation(info),
            data=None,
        )


def _quantisation(info: TensorInfo) -> Quantisation | None:
    if info.quantised is None:
        return None
    return Quantisation(
        scale=(info.quantised.scale,), zero_point=(info.quantised.zero_point,), axis=None
    )


def _attributes(kind: type[Attributes], values: Mapping[str, Any]) -> Attributes:
    """Rebuild an operator's attributes from what JSON keeps of them."""
    fields = {}
    for item in dataclasses.fields(kind):
        value = values[item.name]
        if isinstance(value, dict):
            value = Padding(**value)
        elif isinstance(value, list):
            value = tuple(value)
        elif item.name == "activation":
            value = Activation(value)
        fields[item.name] = value
    return kind(**fields)
