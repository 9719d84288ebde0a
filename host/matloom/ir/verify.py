"""The rules of a graph, checked after loading and between passes."""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from matloom.ir.attributes import Activation
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.ir.operators import OPERATORS, Operator
from matloom.ir.scales import (
    activation_range,
    addition,
    channel_multipliers,
    rescale_multiplier,
    softmax_scale,
)

__all__ = ["verify"]

#: The engine's addresses have 32 bits, and half of them must do for one tensor.
MAX_BYTES = 2**31 - 1
QUANTISED = ("int8", "int16")


def verify(graph: Graph, stage: str) -> None:
    """Check `graph`; `stage` says in the error after which step of the compiler it is wrong.

    Raises
    ------
    ValueError
        A tensor that nobody provides or that is provided twice, a shape that contradicts the
        operator, a type that neither engine nor host takes, quantisation that is missing or
        absurd, or a size beyond 31 bits.
    """
    for problem in _problems(graph):
        raise ValueError(f"{stage}: {problem}")


def _problems(graph: Graph) -> Iterator[str]:
    """Yield what is wrong; a check may rely on those before it."""
    yield from _order(graph)
    for number, tensor in graph.tensors.items():
        for problem in _tensor(tensor):
            yield f"tensor {number} ({tensor.name}) {problem}"
    for node in graph.nodes:
        for problem in _node(graph, node):
            yield f"{node} {problem}"


def _order(graph: Graph) -> Iterator[str]:
    known = {number for number, tensor in graph.tensors.items() if tensor.data is not None}
    for number in graph.inputs:
        if number in known:
            yield f"input {number} must be given once and not be constant"
        if number not in graph.tensors:
            yield f"input {number} must be one of the graph's tensors"
        known.add(number)
    for node in graph.nodes:
        for number in node.inputs:
            if number not in known:
                yield f"{node} must read what an earlier operator made, not tensor {number}"
        for number in node.outputs:
            if number in known or number not in graph.tensors:
                yield f"{node} must write a tensor that nothing else provides, not {number}"
            known.add(number)
    for number in graph.outputs:
        if number not in known:
            yield f"output {number} must be made by an operator"
    for kind, numbers in (("input", graph.inputs), ("output", graph.outputs)):
        names = Counter(graph.tensors[number].name for number in numbers)
        for name, times in names.items():
            if times > 1:
                yield f"{kind} names must differ, but {name!r} occurs {times} times"


def _tensor(tensor: Tensor) -> Iterator[str]:
    if any(length < 1 for length in tensor.shape):
        yield f"must have dimensions of at least 1, not {tensor.shape}"
    if tensor.size_bytes > MAX_BYTES:
        yield f"must have at most {MAX_BYTES} bytes, not {tensor.size_bytes}"
    data = tensor.data
    if data is not None and (data.shape, data.dtype.name) != (tensor.shape, tensor.dtype):
        yield (
            f"must have data of {tensor.dtype} {tensor.shape}, not {data.dtype.name} {data.shape}"
        )
    if tensor.quantisation is not None:
        yield from _quantisation(tensor)


def _quantisation(tensor: Tensor) -> Iterator[str]:
    quantisation = tensor.quantisation
    assert quantisation is not None
    scales, zeros, axis = quantisation.scale, quantisation.zero_point, quantisation.axis
    if tensor.dtype not in QUANTISED:
        yield f"must have no scale, being {tensor.dtype}"
        return
    if axis is None:
        channels = 1
    elif 0 <= axis < len(tensor.shape):
        channels = tensor.shape[axis]
    else:
        yield f"must have its channels along one of {len(tensor.shape)} axes, not {axis}"
        return
    if (len(scales), len(zeros)) != (channels, channels):
        yield f"must have {channels} scales and zero points, not {len(scales)} and {len(zeros)}"
    for scale in scales:
        if not (math.isfinite(scale) and scale > 0):
            yield f"must have scales that are positive and finite, not {scale}"
    limits = np.iinfo(tensor.dtype)
    for zero in zeros:
        if not limits.min <= zero <= limits.max:
            yield f"must have zero points of {limits.min} to {limits.max}, not {zero}"


def _node(graph: Graph, node: Node) -> Iterator[str]:
    rules = OPERATORS[node.op]
    inputs = [graph.tensors[number] for number in node.inputs]
    outputs = [graph.tensors[number] for number in node.outputs]
    types = " -> ".join(" ".join(t.dtype for t in side) for side in (inputs, outputs))
    if types not in rules.types:
        yield f"of {types} can run neither on the engine nor on the host"
        return
    if type(node.attributes) is not rules.attributes:
        expected, given = rules.attributes.__name__, type(node.attributes).__name__
        yield f"must have attributes of {expected}, not {given}"
        return
    yield from _shape(node, rules, inputs, outputs[0])
    for tensor in (*inputs, *outputs):
        if tensor.dtype in QUANTISED and tensor.quantisation is None:
            yield f"must have a scale and a zero point for {tensor.name!r}"
    if rules.weight_axis is not None:
        yield from _weights(inputs, rules.weight_axis)
        inputs = inputs[:1]
    for tensor in (*inputs, *outputs):
        if tensor.quantisation is not None and tensor.quantisation.axis is not None:
            yield f"must have one scale for {tensor.name!r}, not {len(tensor.quantisation.scale)}"
    if node.op == Op.SOFTMAX and outputs[0].dtype == "int8":
        given_pair = (outputs[0].scale, outputs[0].zero_point)
        if given_pair != (1 / 256, -128):
            yield f"must have an output of scale 1/256 and zero point -128, not {given_pair}"
    yield from _ratios(graph, node)


def _ratios(graph: Graph, node: Node) -> Iterator[str]:
    """Check that ratios of scales, and limits, have integers."""
    activation = getattr(node.attributes, "activation", Activation.NONE)
    try:
        if activation is not Activation.NONE:
            activation_range(activation, graph.tensors[node.output])
        if OPERATORS[node.op].weight_axis is not None:
            channel_multipliers(graph, node)
        elif node.op is Op.ADD:
            addition(graph, node)
        elif node.op is Op.SOFTMAX and graph.tensors[node.output].dtype == "int8":
            softmax_scale(graph, node)
        elif node.op is Op.QUANTIZE and graph.tensors[node.inputs[0]].dtype == "int8":
            rescale_multiplier(graph.tensors[node.inputs[0]], graph.tensors[node.output])
    except ValueError as error:
        yield f"does not fit its scales: {error}"


def _shape(node: Node, rules: Operator, inputs: list[Tensor], output: Tensor) -> Iterator[str]:
    if rules.shape is None:
        if inputs[0].size != output.size:
            yield f"must give {inputs[0].size} elements, not {output.size}"
        return
    try:
        shape = rules.shape([tensor.shape for tensor in inputs], node.attributes)
    except ValueError as error:
        yield f"does not fit its inputs: {error}"
        return
    if shape != output.shape:
        yield f"must have an output of shape {shape}, not {output.shape}"


def _weights(inputs: list[Tensor], axis: int) -> Iterator[str]:
    for name, tensor in zip(("weights", "bias"), inputs[1:], strict=False):
        if tensor.data is None:
            yield f"must have constant {name}"
    quantisation = inputs[1].quantisation
    if quantisation is None:
        return
    if quantisation.axis not in (None, axis):
        yield f"must have weight scales along axis {axis}, not {quantisation.axis}"
    for zero in quantisation.zero_point:
        if zero != 0:
            yield f"must have weights of zero point 0, not {zero}"
