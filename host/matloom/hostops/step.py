"""Runs one host step of a Program on the kernels, from the step's own description."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from matloom.hostops.interpreter import node_inputs, run_node
from matloom.hostops.reference import ReferenceRun
from matloom.ir.attributes import Activation, Attributes, Padding
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.operators import OPERATORS
from matloom.program import Constant, HostStep, Program, ProgramError, TensorInfo

__all__ = ["HostSteps"]


class HostSteps:
    """The host steps of one program; each becomes a graph of one node, once.

    Errors
    ------
    ProgramError
        A step names an operator without a kernel, or a tensor that the program does not know.
    InterpreterError
        A step needs a reference interpreter, and none takes it.
    """

    def __init__(self, program: Program) -> None:
        infos = (*program.tensors, *program.inputs, *program.outputs)
        self._tensors = {info.name: _tensor(info) for info in infos}
        for constant in program.constants:
            self._tensors[constant.name] = _constant(constant, program.host_data)
        self._graphs = {
            id(step): self._make_graph(step) for step in program.steps if isinstance(step, HostStep)
        }
        self._references = {
            key: ReferenceRun(graph, node)
            for key, (graph, node) in self._graphs.items()
            if node.op is Op.REFERENCE
        }
        #: Constants by name, for a network that puts one out.
        self.constants = {
            name: tensor.data for name, tensor in self._tensors.items() if tensor.data is not None
        }

    def run(self, step: HostStep, known: Mapping[str, Array]) -> dict[str, Array]:
        """Return the step's outputs by name, for its inputs among `known`."""
        graph, node = self._graphs[id(step)]
        arrays = {number: known[name] for number, name in enumerate(step.inputs) if name in known}
        if node.op is Op.REFERENCE:
            results = self._references[id(step)].run(node_inputs(graph, node, arrays))
            return dict(zip(step.outputs, results, strict=True))
        found = run_node(graph, node, arrays)
        return {step.outputs[at]: found[number] for at, number in enumerate(node.outputs)}

    def _make_graph(self, step: HostStep) -> tuple[Graph, Node]:
        if step.operator not in list(Op):
            raise ProgramError(f"a host step's operator must have a kernel, not {step.operator!r}")
        operator = Op(step.operator)
        names = (*step.inputs, *step.outputs)
        for name in names:
            if name not in self._tensors:
                raise ProgramError(f"a host step's tensors must be the program's, not {name!r}")
        inputs, outputs = tuple(range(len(step.inputs))), tuple(range(len(step.inputs), len(names)))
        node = Node(
            op=operator,
            inputs=inputs,
            outputs=outputs,
            attributes=_attributes(OPERATORS[operator].attributes, step.attributes),
            index=0,
        )
        tensors = {number: self._tensors[name] for number, name in enumerate(names)}
        graph = Graph(name="", inputs=inputs, outputs=outputs, tensors=tensors, nodes=(node,))
        return graph, node


def _tensor(info: TensorInfo) -> Tensor:
    quantisation = None
    if info.quantised is not None:
        quantisation = Quantisation(
            scale=(info.quantised.scale,), zero_point=(info.quantised.zero_point,)
        )
    return Tensor(name=info.name, shape=info.shape, dtype=info.dtype, quantisation=quantisation)


def _constant(constant: Constant, host_data: bytes) -> Tensor:
    dtype = np.dtype(constant.dtype)
    count = math.prod(constant.shape)
    end = constant.offset + count * dtype.itemsize
    if not 0 <= constant.offset <= end <= len(host_data):
        raise ProgramError(
            f"constant {constant.name!r} must lie within {len(host_data)} bytes, not end at {end}"
        )
    data = np.frombuffer(host_data, dtype, count, constant.offset).reshape(constant.shape)
    quantisation = None
    if constant.scales:
        quantisation = Quantisation(
            scale=constant.scales, zero_point=constant.zero_points, axis=constant.axis
        )
    return Tensor(
        name=constant.name,
        shape=constant.shape,
        dtype=constant.dtype,
        quantisation=quantisation,
        data=data,
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
