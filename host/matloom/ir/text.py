"""Writes a graph as text for people."""

from dataclasses import fields

from matloom.ir.attributes import Attributes, Padding
from matloom.ir.graph import Graph, Node, Quantisation, Tensor, Variable
from matloom.printable import printable


def to_text(graph: Graph) -> str:
    """Return `graph` as text, with a line for each input, output, variable and operator."""
    lines = [f"graph {printable(graph.name)}"]
    for kind, numbers in (("input", graph.inputs), ("output", graph.outputs)):
        lines += [
            f"{kind} {_tensor(number, graph.tensors[number])} {graph.tensors[number].name!r}"
            for number in numbers
        ]
    lines += [_variable(graph, variable) for variable in graph.variables]
    return "\n".join([*lines, *(_node(graph, node) for node in graph.nodes)]) + "\n"


def _variable(graph: Graph, variable: Variable) -> str:
    before, after = (
        _tensor(number, graph.tensors[number]) for number in (variable.before, variable.after)
    )
    return f"variable {before} becomes {after} {variable.name!r}"


def _node(graph: Graph, node: Node) -> str:
    operands = ", ".join(_tensor(number, graph.tensors[number]) for number in node.inputs)
    results = ", ".join(_tensor(number, graph.tensors[number]) for number in node.outputs)
    return f"{node.index}: {results} = {node.op}({operands}){_attributes(node.attributes)}"


def _tensor(number: int, tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape))
    sign = "%" if tensor.data is None else "#"
    dtype = tensor.number_format or tensor.dtype
    return f"{sign}{number}:{dtype}[{shape}]{_quantisation(tensor.quantisation)}"


def _quantisation(quantisation: Quantisation | None) -> str:
    if quantisation is None:
        return ""
    if quantisation.axis is None:
        return f"{{{quantisation.scale[0]:.6g}, {quantisation.zero_point[0]}}}"
    return f"{{{len(quantisation.scale)} scales on axis {quantisation.axis}}}"


def _attributes(attributes: Attributes) -> str:
    pairs = []
    for item in fields(attributes):
        value = getattr(attributes, item.name)
        if item.name == "mode" and value is None:
            continue
        if isinstance(value, Padding):
            value = (value.top, value.bottom, value.left, value.right)
        text = "x".join(map(str, value)) if isinstance(value, tuple) else value
        pairs.append(f" {item.name}={text}")
    return "".join(pairs)
