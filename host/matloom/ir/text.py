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
            f"{kind} {_tensor_text(number, graph.tensors[number])} {graph.tensors[number].name!r}"
            for number in numbers
        ]
    lines += [_variable_text(graph, variable) for variable in graph.variables]
    return "\n".join([*lines, *(_node_text(graph, node) for node in graph.nodes)]) + "\n"


def _variable_text(graph: Graph, variable: Variable) -> str:
    """Return a variable's line: its tensors before and after a call, and its name."""
    before, after = (
        _tensor_text(number, graph.tensors[number]) for number in (variable.before, variable.after)
    )
    return f"variable {before} becomes {after} {variable.name!r}"


def _node_text(graph: Graph, node: Node) -> str:
    """Return an operator's line: its results, name, operands and attributes."""
    operands = ", ".join(_tensor_text(number, graph.tensors[number]) for number in node.inputs)
    results = ", ".join(_tensor_text(number, graph.tensors[number]) for number in node.outputs)
    return f"{node.index}: {results} = {node.op}({operands}){_attributes_text(node.attributes)}"


def _tensor_text(number: int, tensor: Tensor) -> str:
    """Return a tensor as text: ``%`` (``#`` if constant), number, type, shape and scales."""
    shape = "x".join(map(str, tensor.shape))
    sign = "%" if tensor.data is None else "#"
    dtype = tensor.number_format or tensor.dtype
    return f"{sign}{number}:{dtype}[{shape}]{_quantisation_text(tensor.quantisation)}"


def _quantisation_text(quantisation: Quantisation | None) -> str:
    """Return scale and zero point in braces, the number of scales if several, "" if none."""
    if quantisation is None:
        return ""
    if quantisation.axis is None:
        return f"{{{quantisation.scale[0]:.6g}, {quantisation.zero_point[0]}}}"
    return f"{{{len(quantisation.scale)} scales on axis {quantisation.axis}}}"


def _attributes_text(attributes: Attributes) -> str:
    """Return attributes as text ``name=value``, each after a space."""
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
