"""Conversion of tensors, constants and host steps of a Program to parts of a graph."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from matloom.ir.attributes import Activation, Attributes, Padding
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.operators import OPERATORS
from matloom.ir.verify import verify
from matloom.program.contents import Contents
from matloom.program.errors import ProgramError
from matloom.program.records import HostConstant, HostStep, TensorInfo


def tensors_by_name(program: Contents) -> dict[str, Tensor]:
    """Return the tensors and constants of a program, by key or name; constants have their data.

    Raises
    ------
    ProgramError
        A constant does not lie within the program's host data.
    """
    infos = (*program.tensors, *program.inputs, *program.outputs)
    tensors = {info.key: _tensor(info) for info in infos}
    for constant in program.constants:
        tensors[constant.name] = _constant(constant, program.host_data)
    return tensors


def step_graph(step: HostStep, tensors: Mapping[str, Tensor]) -> Graph:
    """Return a graph with the single node of a host step.

    The number of a tensor is the position of its first occurrence among inputs and outputs.

    Raises
    ------
    ProgramError
        The operator has no kernel, a tensor is unknown, or the attributes are not those of the
        operator.
    """
    if step.operator not in list(Op):
        raise ProgramError(f"a host step's operator must have a kernel, not {step.operator!r}")
    operator = Op(step.operator)
    names = (*step.inputs, *step.outputs)
    for name in names:
        if name not in tensors:
            raise ProgramError(f"a host step's tensors must be the program's, not {name!r}")
    numbers = {name: number for number, name in reversed(list(enumerate(names)))}
    outputs = tuple(numbers[name] for name in step.outputs)
    node = Node(
        op=operator,
        inputs=tuple(numbers[name] for name in step.inputs),
        outputs=outputs,
        attributes=_attributes(operator, step.attributes),
        index=0,
    )
    known = {number: tensors[name] for name, number in numbers.items()}
    variable = tuple(n for n in dict.fromkeys(node.inputs) if known[n].data is None)
    return Graph(name="", inputs=variable, outputs=outputs, tensors=known, nodes=(node,))


def require_valid(subject: str, graph: Graph) -> None:
    """Raise `ProgramError` if a graph breaks a rule; the message begins with `subject`."""
    try:
        verify(graph, subject)
    except ValueError as error:
        raise ProgramError(str(error)) from None


def _tensor(info: TensorInfo) -> Tensor:
    """Return a program's tensor as a tensor of a graph."""
    quantisation = None
    if info.quantised is not None:
        quantisation = Quantisation(
            scale=(info.quantised.scale,), zero_point=(info.quantised.zero_point,)
        )
    return Tensor(name=info.key, shape=info.shape, dtype=info.dtype, quantisation=quantisation)


def _constant(constant: HostConstant, host_data: bytes) -> Tensor:
    """Return a program's constant as a tensor of a graph, with its data."""
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


def _attributes(operator: Op, values: Mapping[str, Any]) -> Attributes:
    """Return an operator's attributes object; raise `ProgramError` if names do not match."""
    kind = OPERATORS[operator].attributes
    wanted = [item.name for item in dataclasses.fields(kind)]
    if set(values) != set(wanted):
        raise ProgramError(f"{operator} must have the attributes {wanted}, not {list(values)}")
    fields = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = Padding(**value)
        elif name == "activation":
            value = Activation(value)
        fields[name] = value
    return kind(**fields)
