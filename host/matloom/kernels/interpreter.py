"""Runs a graph on the host's kernels: the definition of what a graph means."""

from collections.abc import Mapping

from matloom.ir.graph import Array, Graph, Node, Op
from matloom.kernels.kernels import kernel_of
from matloom.kernels.reference import ReferenceRun

__all__ = ["check_input", "interpret", "node_inputs", "run_node"]


def check_input(graph: Graph, number: int, array: Array) -> None:
    """Raise ValueError unless `array` has the shape and type of a tensor of `graph`."""
    tensor = graph.tensors[number]
    if (array.shape, array.dtype.name) != (tensor.shape, tensor.dtype):
        raise ValueError(
            f"input {tensor.name!r} must be {tensor.dtype} {tensor.shape}, "
            f"not {array.dtype.name} {array.shape}"
        )


def run_node(graph: Graph, node: Node, known: Mapping[int, Array]) -> dict[int, Array]:
    """Return a node's outputs by number; constants come from the graph, the rest from `known`."""
    inputs = node_inputs(graph, node, known)
    if node.op is Op.REFERENCE:
        results: Array | tuple[Array, ...] = ReferenceRun(graph, node).run(inputs)
    else:
        results = kernel_of(node, inputs)(graph, node, inputs)
    arrays = results if isinstance(results, tuple) else (results,)
    return dict(zip(node.outputs, arrays, strict=True))


def node_inputs(graph: Graph, node: Node, known: Mapping[int, Array]) -> list[Array]:
    """Return a node's inputs in order."""
    inputs = []
    for number in node.inputs:
        data = graph.tensors[number].data
        inputs.append(known[number] if data is None else data)
    return inputs


def interpret(graph: Graph, inputs: Mapping[int, Array], *, keep: bool = False) -> dict[int, Array]:
    """Return the graph's outputs, by tensor number, for its `inputs`, likewise.

    Parameters
    ----------
    graph:
        A graph that `verify` accepts.
    inputs:
        One array for each of ``graph.inputs``, of its tensor's shape and type.
    keep:
        Return every tensor that was computed or given, not the outputs alone.

    Raises
    ------
    ValueError
        An input is missing, unknown, or of another shape or type.
    """
    if set(inputs) != set(graph.inputs):
        raise ValueError(f"inputs must be tensors {sorted(graph.inputs)}, not {sorted(inputs)}")
    for number, array in inputs.items():
        check_input(graph, number, array)
    known = dict(inputs)
    for node in graph.nodes:
        known.update(run_node(graph, node, known))
    if keep:
        return known
    outputs = {}
    for number in graph.outputs:
        data = graph.tensors[number].data
        outputs[number] = known[number] if data is None else data
    return outputs
