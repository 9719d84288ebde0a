"""Recognises functions of one number among operators that an interpreter runs."""

from dataclasses import replace

import numpy as np

from matloom.errors import UserError
from matloom.ir.attributes import Function, Reference
from matloom.ir.graph import Graph, Node, Op
from matloom.kernels.functions import FUNCTIONS, closest_function
from matloom.kernels.interpreter import run_node

#: Numbers at which two functions are compared.
_POINTS = np.linspace(-5.9, 6.1, 97).astype(np.float32)
_TOLERANCE = 1e-4


def name_functions(graph: Graph) -> Graph:
    """Return the float network with FUNCTION for each REFERENCE that computes a known function.

    GELU, RSQRT and other functions can then be quantised.
    """
    nodes = []
    for node in graph.nodes:
        name = _known_function(graph, node)
        if name is not None:
            attributes = Function(function=name)
            node = replace(node, op=Op.FUNCTION, inputs=node.inputs[:1], attributes=attributes)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _known_function(graph: Graph, node: Node) -> str | None:
    """Return the name in `FUNCTIONS` of the function that a node computes; None for other nodes."""
    # The last input is the model file.
    if node.op is not Op.REFERENCE or len(node.inputs[:-1]) != 1 or len(node.outputs) != 1:
        return None
    (operator, *others) = node.attributes_as(Reference).operators
    names = [name for name in FUNCTIONS if name.split("_")[0] == operator]
    given, made = (graph.tensors[number] for number in (node.inputs[0], node.output))
    if others or not names or {given.dtype, made.dtype} != {"float32"} or not given.size:
        return None
    if given.shape != made.shape:
        return None
    points = np.resize(_POINTS, given.shape)
    try:
        results = run_node(graph, node, {node.inputs[0]: points})[node.output]
    except UserError:
        return None
    return closest_function(names, points, results, _TOLERANCE)
