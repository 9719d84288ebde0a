"""Runs a graph on all samples at once, operator by operator, and drops tensors after their use."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from matloom.ir.graph import Array, Graph, Node
from matloom.kernels.interpreter import run_node


def run_on_samples(graph: Graph, node: Node, values: Mapping[int, Array]) -> dict[int, Array]:
    """Return a node's outputs for all samples, (samples, *shape), by number.

    `values` has the node's computed inputs in the same form, at least one; constants are taken from
    the graph.
    """
    computed = [number for number in node.inputs if graph.tensors[number].data is None]
    results: dict[int, list[Array]] = {number: [] for number in node.outputs}
    for sample in range(len(values[computed[0]])):
        inputs = {number: values[number][sample] for number in computed}
        for number, array in run_node(graph, node, inputs).items():
            results[number].append(array)
    return {number: np.stack(arrays) for number, arrays in results.items()}


def last_uses(graph: Graph) -> dict[int, list[int]]:
    """Return, by node index, the tensors that are last used at that node.

    These are last read there, or computed there and never read. Outputs of the graph and final
    values of variables are left out.
    """
    dropped: dict[int, list[int]] = {at: [] for at in range(len(graph.nodes))}
    for number, readers in graph.consumers.items():
        last = readers[-1] if readers else graph.producers.get(number)
        if last is not None and number not in graph.leaving:
            dropped[last].append(number)
    return dropped


def run_nodes(
    graph: Graph, inputs: Mapping[int, Array]
) -> Iterator[tuple[int, Node, Mapping[int, Array]]]:
    """Run a graph on samples; yield each node's index, the node, and all live tensors by number.

    The node's outputs and inputs are among the live tensors. The mapping changes later.

    Parameters
    ----------
    inputs:
        Samples (samples, *shape) of each input, by number.
    """
    values, dropped = dict(inputs), last_uses(graph)
    for at, node in enumerate(graph.nodes):
        values.update(run_on_samples(graph, node, values))
        yield at, node, values
        for number in dropped[at]:
            values.pop(number, None)


def inputs_of_layers(
    graph: Graph, index: int, layers: Sequence[int], values: Mapping[int, Array]
) -> Array:
    """Return the first inputs of several layers, one after another: (layers * samples, *shape).

    Parameters
    ----------
    index:
        Index of the node that ran last.
    layers:
        Indices of layers whose inputs have one shape, ascending from `index`.
    values:
        All live tensors after this node.
    """
    known = dict(values)
    for node in graph.nodes[index + 1 : layers[-1]]:
        known.update(run_on_samples(graph, node, known))
    return np.concatenate([known[graph.nodes[at].inputs[0]] for at in layers])


def outputs_of(graph: Graph, inputs: Mapping[int, Array]) -> Sequence[Array]:
    """Return the graph's outputs for all samples, (samples, *shape) each."""
    values = dict(inputs)
    for _at, node, alive in run_nodes(graph, inputs):
        values.update((number, alive[number]) for number in node.outputs if number in graph.outputs)
    return [values[number] for number in graph.outputs]
