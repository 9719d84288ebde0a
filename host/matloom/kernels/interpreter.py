"""Runs a graph with the host's kernels; the results define what the graph means."""

from collections.abc import Mapping

import numpy as np

from matloom.ir.graph import Array, Graph, Node, Op
from matloom.kernels.kernels import kernel_of
from matloom.kernels.reference import ReferenceRun


def check_input(graph: Graph, number: int, array: Array) -> None:
    """Raise ValueError unless `array` has the shape and type of a tensor of `graph`."""
    tensor = graph.tensors[number]
    if (array.shape, array.dtype.name) != (tensor.shape, tensor.dtype):
        raise ValueError(
            f"input {tensor.name!r} must be {tensor.dtype} {tensor.shape}, "
            f"not {array.dtype.name} {array.shape}"
        )


def run_node(graph: Graph, node: Node, values: Mapping[int, Array]) -> dict[int, Array]:
    """Return a node's outputs by number; constants come from the graph, the rest from `values`."""
    inputs = node_inputs(graph, node, values)
    if node.op is Op.REFERENCE:
        results: Array | tuple[Array, ...] = ReferenceRun(graph, node).run(inputs)
    else:
        # Numbers of a network may overflow, or be infinite or NaN, as in the interpreters.
        with np.errstate(all="ignore"):
            results = kernel_of(node, inputs)(graph, node, inputs)
    arrays = results if isinstance(results, tuple) else (results,)
    return dict(zip(node.outputs, arrays, strict=True))


def node_inputs(graph: Graph, node: Node, values: Mapping[int, Array]) -> list[Array]:
    """Return the inputs of a node, in order."""
    inputs = []
    for number in node.inputs:
        data = graph.tensors[number].data
        inputs.append(values[number] if data is None else data)
    return inputs


def initial_state(graph: Graph) -> dict[int, Array]:
    """Return the initial values of variables, by number of the tensors that hold them at first."""
    return {variable.before: variable.initial for variable in graph.variables}


def next_state(graph: Graph, results: Mapping[int, Array]) -> dict[int, Array]:
    """Return the variables' values for the next call, by tensor number, from a call's results."""
    return {variable.before: results[variable.after] for variable in graph.variables}


def interpret(graph: Graph, inputs: Mapping[int, Array], *, keep: bool = False) -> dict[int, Array]:
    """Return the outputs of the graph for its inputs, both by tensor number.

    No state is kept: the caller passes variables among the inputs, and gets their new values among
    the results (`next_state`).

    Parameters
    ----------
    graph:
        A graph that `verify` accepts.
    inputs:
        One array for each of ``graph.entering``, with its tensor's shape and type; omitted
        variables have their initial values.
    keep:
        Return every tensor that was computed or passed in, not only those in ``graph.leaving``.

    Raises
    ------
    ValueError
        An input is missing or unknown, or has another shape or type.
    """
    values = {**initial_state(graph), **inputs}
    if set(values) != set(graph.entering):
        raise ValueError(f"inputs must be tensors {sorted(graph.entering)}, not {sorted(inputs)}")
    for number, array in inputs.items():
        check_input(graph, number, array)
    for node in graph.nodes:
        values.update(run_node(graph, node, values))
    results = {}
    for number in graph.leaving:
        data = graph.tensors[number].data
        results[number] = values[number] if data is None else data
    return {**values, **results} if keep else results
