"""Rules for graphs, checked after loading and between passes."""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from matloom.ir.graph import Graph, Tensor
from matloom.ir.node_rules import QUANTISED, node_problems

#: Maximum size of a tensor: half of the engine's address space of 32 bits.
MAX_BYTES = 2**31 - 1


def verify(graph: Graph, stage: str) -> None:
    """Check `graph`; error messages name `stage`, the step of the compiler before the check.

    Raises
    ------
    ValueError
        A tensor has no producer or several, names of inputs or of outputs are not unique, a
        variable has two shapes or types, an operator breaks a rule (`node_problems`), quantisation
        is missing or invalid, or a size exceeds `MAX_BYTES`.
    """
    for problem in _problems(graph):
        raise ValueError(f"{stage}: {problem}")


def _problems(graph: Graph) -> Iterator[str]:
    """Yield the problems of a graph as sentences; only the first one is reliable.

    Later checks assume that earlier ones found nothing, and may raise other exceptions.
    """
    yield from _order_problems(graph)
    yield from _variable_problems(graph)
    for number, tensor in graph.tensors.items():
        for problem in _tensor_problems(tensor):
            yield f"tensor {number} ({tensor.name}) {problem}"
    for node in graph.nodes:
        yield from (f"{node} {problem}" for problem in node_problems(graph.tensors, node))


def _order_problems(graph: Graph) -> Iterator[str]:
    """Yield the problems of tensors that are read before they are made, or made twice."""
    known = {number for number, tensor in graph.tensors.items() if tensor.data is not None}
    for number in graph.entering:
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
    for number in graph.leaving:
        if number not in known:
            yield f"output {number} must be made by an operator"
    for kind, numbers in (("input", graph.inputs), ("output", graph.outputs)):
        names = Counter(graph.tensors[number].name for number in frozenset(numbers))
        for name, times in names.items():
            if times > 1:
                yield f"{kind} names must differ, but {name!r} occurs {times} times"


def _variable_problems(graph: Graph) -> Iterator[str]:
    """Yield the problems of variables: equal names, or values of different shapes or types."""
    names = Counter(variable.name for variable in graph.variables)
    for variable in graph.variables:
        name = f"variable {variable.name!r}"
        if names[variable.name] > 1:
            yield f"variable names must differ, but {variable.name!r} occurs twice"
        before, after = graph.tensors[variable.before], graph.tensors[variable.after]
        kind = f"{before.dtype} {before.shape}"
        if (after.shape, after.dtype) != (before.shape, before.dtype):
            yield f"{name} must be assigned {kind}, not {after.dtype} {after.shape}"
        initial = variable.initial
        if (initial.shape, initial.dtype.name) != (before.shape, before.dtype):
            yield f"{name} must begin as {kind}, not {initial.dtype.name} {initial.shape}"


def _tensor_problems(tensor: Tensor) -> Iterator[str]:
    """Yield the problems of a tensor's shape, size, data and scales, without a subject."""
    if any(length < 0 for length in tensor.shape):
        yield f"must have dimensions of at least 0, not {tensor.shape}"
    if tensor.size_bytes > MAX_BYTES:
        yield f"must have at most {MAX_BYTES} bytes, not {tensor.size_bytes}"
    data = tensor.data
    if data is not None and (data.shape, data.dtype.name) != (tensor.shape, tensor.dtype):
        yield (
            f"must have data of {tensor.dtype} {tensor.shape}, not {data.dtype.name} {data.shape}"
        )
    yield from quantisation_problems(tensor)


def quantisation_problems(tensor: Tensor) -> Iterator[str]:
    """Yield the problems of a tensor's scales and zero points, as sentences without a subject."""
    quantisation = tensor.quantisation
    if quantisation is None:
        return
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
