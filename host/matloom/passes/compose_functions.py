"""Joins operators that together compute a function of one byte, such as SiLU, into one LOOKUP."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from matloom.ir.attributes import Lookup
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.kernels.kernels import kernel_of

#: Operators that the engine computes by tables.
_BY_TABLE = frozenset({Op.HARD_SWISH, Op.LOGISTIC, Op.LOOKUP, Op.TANH})
#: Operators whose results depend only on the bytes at the same place.
_STEPS = _BY_TABLE | {
    *(Op.ADD, Op.MAXIMUM, Op.MINIMUM, Op.MUL, Op.SQUARED_DIFFERENCE, Op.SUB),
    *(Op.LEAKY_RELU, Op.PRELU, Op.QUANTIZE, Op.RELU, Op.RELU6),
}
_BYTES = np.arange(-128, 128).astype(np.int8)


@dataclass(frozen=True, kw_only=True, eq=False)
class _ByteFunction:
    """A tensor, each byte of which is a function of the byte at the same index of another.

    Members
    -------
    source:
        Number of the other tensor.
    results:
        The byte for each byte of `source`, in ascending order: int8 (256,).
    steps:
        Positions in the graph of the operators that compute it.
    """

    source: int
    results: Array
    steps: frozenset[int]


def compose_functions(graph: Graph) -> Graph:
    """Return the graph with one LOOKUP for operators that together map each byte to a byte.

    The operators remain if other operators read their intermediate results, or if a table would not
    save cycles.
    """
    functions = dict[int, _ByteFunction]()
    for place, node in enumerate(graph.nodes):
        function = _byte_function(graph, functions, place)
        if function is not None:
            functions[node.output] = function
    nodes, remarks, joined = list[Node](), dict(graph.remarks), set[int]()
    for place, node in reversed([*enumerate(graph.nodes)]):
        function = functions.get(node.output) if len(node.outputs) == 1 else None
        if place in joined:
            continue
        if (
            function is not None
            and _saves_cycles(graph, function)
            and _is_closed(graph, function, place)
        ):
            joined |= function.steps
            names = [str(graph.nodes[step].op) for step in sorted(function.steps)]
            remarks[node.index] = f"the results of {' and '.join(dict.fromkeys(names))}"
            table = Lookup(table=tuple(function.results.tolist()))
            node = replace(node, op=Op.LOOKUP, inputs=(function.source,), attributes=table)
        nodes.append(node)
    return replace(graph, nodes=tuple(reversed(nodes)), remarks=remarks)


def _byte_function(
    graph: Graph, functions: Mapping[int, _ByteFunction], index: int
) -> _ByteFunction | None:
    """Return an operator's output as a function of one computed tensor; None if it is not."""
    node = graph.nodes[index]
    if not _is_bytewise(graph, node):
        return None
    computed = {number for number in node.inputs if graph.tensors[number].data is None}
    known = {
        number: functions[number] for number in computed if _is_inner(graph, functions, number)
    }
    sources = {known[number].source if number in known else number for number in computed}
    if len(sources) != 1:
        known, sources = {}, computed
    if len(sources) != 1:
        return None
    (source,) = sources
    inputs = [
        _BYTES
        if number == source
        else known[number].results
        if number in known
        else np.asarray(graph.tensors[number].data).reshape(-1)[:1]
        for number in node.inputs
    ]
    results = kernel_of(node, inputs)(graph, node, inputs)
    assert isinstance(results, np.ndarray)
    steps = frozenset({index}).union(*(each.steps for each in known.values()))
    return _ByteFunction(source=source, results=results.reshape(-1), steps=steps)


def _is_bytewise(graph: Graph, node: Node) -> bool:
    """Return whether an operator computes each byte from the bytes at the same place alone.

    Constants may be read as well, if all elements of each are equal.
    """
    if node.op not in _STEPS or len(node.outputs) != 1:
        return False
    tensors = [graph.tensors[number] for number in (*node.inputs, node.output)]
    if any(tensor.dtype != "int8" or not tensor.size for tensor in tensors):
        return False
    computed = [tensor for tensor in tensors if tensor.data is None]
    constants = [tensor.data for tensor in tensors if tensor.data is not None]
    return (
        len(computed) > 1
        and len({tensor.shape for tensor in computed}) == 1
        and all((data == data.reshape(-1)[0]).all() for data in constants)
    )


def _is_inner(graph: Graph, functions: Mapping[int, _ByteFunction], number: int) -> bool:
    """Return whether a tensor may disappear: only bytewise operators make it and read it."""
    readers = [graph.nodes[at] for at in graph.consumers[number]]
    alone = number not in graph.leaving and all(_is_bytewise(graph, reader) for reader in readers)
    return number in functions and alone


def _is_closed(graph: Graph, function: _ByteFunction, last: int) -> bool:
    """Return whether the intermediate results of a function are read only within it.

    `last` is the step that makes the function's result.
    """
    inner = [graph.nodes[step].output for step in function.steps if step != last]
    return all(function.steps.issuperset(graph.consumers[number]) for number in inner)


def _saves_cycles(graph: Graph, function: _ByteFunction) -> bool:
    """Return whether a single lookup table is faster than the operators of a function.

    It is if it replaces several tables, or an operator on two tensors.
    """
    steps = [graph.nodes[step] for step in function.steps]
    by_two = [
        node for node in steps if all(graph.tensors[number].data is None for number in node.inputs)
    ]
    tables = sum(node.op in _BY_TABLE for node in steps)
    return tables > 1 or any(len(node.inputs) > 1 for node in by_two)
