"""Removes the state of a network before quantisation, and restores it afterwards."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from matloom.ir.graph import Array, Graph, Node, Op
from matloom.ir.verify import verify
from matloom.kernels.interpreter import initial_state, interpret, next_state
from matloom.quantiser.integers import integers_of
from matloom.tools.samples import graph_samples


def without_state(
    graph: Graph, data: Array | Mapping[str, Array]
) -> tuple[Graph, Array | Mapping[str, Array]]:
    """Return a network with inputs and outputs instead of variables, and samples for all inputs.

    Parameters
    ----------
    data:
        Samples of the inputs; those of consecutive calls if there are variables. The float network
        runs on them to compute the values of the variables before each call.
    """
    if not graph.variables:
        return graph, data
    given, state = graph_samples(graph, data), initial_state(graph)
    seen: dict[int, list[Array]] = {number: [] for number in state}
    for call in range(len(given)):
        for number, array in state.items():
            seen[number].append(array)
        inputs = {n: given.arrays[graph.tensors[n].name][call] for n in graph.inputs}
        state = next_state(graph, interpret(graph, {**inputs, **state}))
    names = {variable.before: variable.name for variable in graph.variables}
    tensors = dict(graph.tensors)
    for number, name in names.items():
        tensors[number] = replace(tensors[number], name=name)
    after = [variable.after for variable in graph.variables]
    opened = replace(
        graph,
        tensors=tensors,
        variables=(),
        inputs=graph.entering,
        outputs=tuple(dict.fromkeys((*graph.outputs, *after))),
    )
    samples = {names[number]: np.stack(arrays) for number, arrays in seen.items()}
    return opened, {**given.arrays, **samples}


def with_state(quantised: Graph, source: Graph) -> Graph:
    """Return a quantised network with the variables of the float network from which it was made.

    If a variable has another scale at the end of a call than at the start, a QUANTIZE converts it.
    """
    if not source.variables:
        return quantised
    tensors, nodes, variables = dict(quantised.tensors), list(quantised.nodes), []
    order = tuple(dict.fromkeys((*source.outputs, *(each.after for each in source.variables))))
    places = {number: at for at, number in enumerate(order)}
    for variable in source.variables:
        before = quantised.inputs[source.entering.index(variable.before)]
        after = quantised.outputs[places[variable.after]]
        if tensors[before].quantisation != tensors[after].quantisation:
            number = max(tensors) + 1
            tensors[number] = replace(tensors[before], name=f"{tensors[after].name} kept")
            nodes.append(Node(op=Op.QUANTIZE, inputs=(after,), outputs=(number,), index=-1))
            after = number
        initial = integers_of(tensors[before], np.asarray(variable.initial))
        variables.append(replace(variable, before=before, after=after, initial=initial))
    graph = replace(
        quantised,
        tensors=tensors,
        nodes=tuple(nodes),
        variables=tuple(variables),
        inputs=quantised.inputs[: len(source.inputs)],
        outputs=quantised.outputs[: len(source.outputs)],
    )
    verify(graph, "quantise")
    return graph
