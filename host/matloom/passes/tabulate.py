"""Replaces operators that map bytes one by one by lookup tables.

The tables hold the results of a reference interpreter.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from matloom.errors import UserError
from matloom.ir.attributes import INTERPRETERS, Function, Lookup, Reference
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.kernels.interpreter import run_node
from matloom.kernels.reference import ReferenceRun, choose

#: Operators of TensorFlow Lite, without a kernel here, that map bytes one by one.
_ELEMENTWISE = frozenset(
    {"ABS", "ELU", "EXP", "GELU", "LOG", "NEG", "RELU_0_TO_1", "RELU_N1_TO_1", "RSQRT"}
)
_BYTES = np.arange(-128, 128).astype(np.int8)


def tabulate(graph: Graph) -> Graph:
    """Return the graph with LOOKUP for operators that map each byte to a byte.

    The reference interpreter computes the results of all bytes. Operators stay as they are if it is
    not installed, or if a result depends on the position of the byte.
    """
    nodes, remarks = [], dict(graph.remarks)
    opaque = [n for n in graph.nodes if n.op is Op.REFERENCE and _maps_bytes(graph, n)]
    with suppress(UserError):
        # All in one process of each interpreter; their answers are kept.
        choose(graph, opaque)
    for node in graph.nodes:
        table = _lookup_table(graph, node) if _maps_bytes(graph, node) else None
        if table is not None:
            remarks[node.index] = f"the results of {_function_names(node)} for all bytes"
            entries = Lookup(table=tuple(table.tolist()))
            node = replace(node, op=Op.LOOKUP, inputs=node.inputs[:1], attributes=entries)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), remarks=remarks)


def _function_names(node: Node) -> str:
    """Return the names of the function or the operators that a node runs, for messages."""
    if node.op is Op.FUNCTION:
        return node.attributes_as(Function).function
    return " and ".join(node.attributes_as(Reference).operators)


def _maps_bytes(graph: Graph, node: Node) -> bool:
    """Return whether a node maps the bytes of one int8 tensor, as FUNCTION or as REFERENCE.

    A REFERENCE may have only elementwise operators.
    """
    if node.op is Op.FUNCTION:
        return graph.tensors[node.output].dtype == "int8"
    # The last input is the model file.
    if node.op is not Op.REFERENCE or len(node.inputs[:-1]) != 1 or len(node.outputs) != 1:
        return False
    attributes = node.attributes_as(Reference)
    given, made = (graph.tensors[number] for number in (node.inputs[0], node.output))
    return (
        {*attributes.operators} <= _ELEMENTWISE
        and {*attributes.interpreters} <= {*INTERPRETERS}
        and given.dtype == made.dtype == "int8"
        and given.shape == made.shape
        and given.size > 0
    )


def _lookup_table(graph: Graph, node: Node) -> Array | None:
    """Return a node's results for the bytes -128 to 127, int8 (256,); None if it has no table.

    Return None if the interpreter cannot run, or if a result depends on the position of its byte.
    """
    try:
        function = _node_function(graph, node)
        table, backwards = (
            np.concatenate(list(_results_by_batch(graph, node, function, order)))[: len(_BYTES)]
            for order in (_BYTES, _BYTES[::-1])
        )
    except UserError:
        return None
    return table if np.array_equal(table, backwards[::-1]) else None


def _node_function(graph: Graph, node: Node) -> Callable[[Array], Array]:
    """Return a function that computes a node's output from its input.

    An interpreter is started only once.
    """
    if node.op is not Op.REFERENCE:
        return lambda part: run_node(graph, node, {node.inputs[0]: part})[node.output]
    run, file = ReferenceRun(graph, node), graph.tensors[node.inputs[-1]].data
    assert file is not None
    return lambda part: run.run([part, file])[0]


def _results_by_batch(
    graph: Graph, node: Node, function: Callable[[Array], Array], data: Array
) -> Iterator[Array]:
    """Yield the results of `function` for the bytes in `data`, in batches of the tensor's size.

    The last batch may have more results than there are bytes left.
    """
    shape, size = graph.tensors[node.output].shape, graph.tensors[node.output].size
    for first in range(0, len(data), size):
        part = np.resize(data[first : first + size], shape)
        yield function(part).reshape(-1)[: len(_BYTES)]
