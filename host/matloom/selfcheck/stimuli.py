"""Draws inputs for checks of a program: random ones, and both extremes of their types."""

from dataclasses import replace

import numpy as np

from matloom.arch.floats import FLOAT_FORMATS, narrow
from matloom.ir.graph import Array, Graph, Op, Tensor
from matloom.ir.indices import graph_index_lengths

#: Kinds of inputs of a first call and of a repeated one, in two rounds.
KINDS = (("random", "random"), ("minimum", "maximum"))

#: Floating-point inputs for both extremes, so small that sums stay finite in every format.
_FLOAT_ENDS = {"minimum": -1.0, "maximum": 1.0}


def values_of(tensor: Tensor, kind: str, rng: np.random.Generator) -> Array:
    """Return values for a tensor: ``"random"``, or the type's ``"minimum"`` or ``"maximum"``.

    Floating-point numbers are standard normal, or all -1 or 1.
    """
    if tensor.number_format is not None:
        return _patterns(tensor, kind, rng)
    dtype = np.dtype(tensor.dtype)
    if dtype == np.bool_:
        low, high = 0, 1
    elif np.issubdtype(dtype, np.integer):
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    elif kind in _FLOAT_ENDS:
        return np.full(tensor.shape, _FLOAT_ENDS[kind], dtype)
    else:
        return rng.standard_normal(tensor.shape).astype(dtype)
    if kind in _FLOAT_ENDS:
        return np.full(tensor.shape, low if kind == "minimum" else high, dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, tensor.shape).astype(dtype)
    return rng.integers(low, high, tensor.shape, dtype, endpoint=True)


def _patterns(tensor: Tensor, kind: str, rng: np.random.Generator) -> Array:
    """Return bit patterns of random or extreme numbers in the tensor's number format."""
    numbers = values_of(replace(tensor, dtype="float32", number_format=None), kind, rng)
    patterns = numbers.view(np.uint32).astype(np.int64)
    if tensor.number_format in FLOAT_FORMATS:
        patterns = np.asarray(narrow(patterns, FLOAT_FORMATS[tensor.number_format]))
    return patterns.astype(tensor.dtype)


def inputs_of(graph: Graph, kind: str, rng: np.random.Generator) -> dict[int, Array]:
    """Return an array for each input and variable of a graph, by tensor number.

    Indices of GATHER are valid. If the graph has opaque operators, other integers of 32 and 64 bits
    are zero, because they might be indices, too.
    """
    opaque = any(node.op is Op.REFERENCE for node in graph.nodes)
    inputs, indices = {}, graph_index_lengths(graph)
    for number in graph.entering:
        tensor = graph.tensors[number]
        if number in indices:
            values = values_of(tensor, kind, rng)
            inputs[number] = np.asarray(values % values.dtype.type(indices[number]))
        elif opaque and tensor.dtype in ("int32", "int64", "uint32", "uint64"):
            inputs[number] = np.zeros(tensor.shape, tensor.dtype)
        else:
            inputs[number] = values_of(tensor, kind, rng)
    return inputs
