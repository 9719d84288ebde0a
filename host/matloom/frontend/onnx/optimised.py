"""Lets ONNX Runtime replace the QDQ operators of a quantised model by operators on integers.

ONNX Runtime decides which operators between DequantizeLinear and QuantizeLinear become integer
operators, depending on its version and the processor. This module runs ONNX Runtime's optimisation
instead of imitating it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from matloom.frontend.onnx.shapes import infer_shapes
from matloom.kernels.onnx_model import memory_of, subgraphs
from matloom.kernels.probe import optimise

#: Operators that convert floats to quantised integers, or back.
CONVERSIONS = frozenset({"QuantizeLinear", "DequantizeLinear"})
#: Names of operators on integers for which `is_integer_operator` returns False.
_INTEGER = frozenset({"ConvInteger", "DynamicQuantizeLinear", "MatMulInteger"})


def is_integer_operator(name: str) -> bool:
    """Return whether an operator of this name computes quantised integers from such integers."""
    return name.startswith("QLinear") or name == "QGemm"


def is_quantised(graph: Any) -> bool:
    """Return whether a GraphProto, its branches or its bodies have quantised operators."""
    converts = any(node.op_type in CONVERSIONS for node in _operators(graph))
    return converts or has_integer_operators(graph)


def has_integer_operators(graph: Any) -> bool:
    """Return whether a GraphProto, its branches or its bodies have operators on quantised integers.

    A QDQ network has none: all its operators but QuantizeLinear and DequantizeLinear are on floats.
    """
    names = {node.op_type for node in _operators(graph)}
    return bool(names & _INTEGER) or any(map(is_integer_operator, names))


def _operators(graph: Any) -> Iterator[Any]:
    """Yield the nodes of an ONNX graph, and those of its subgraphs."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from _operators(inner)


def to_integer_operators(model: Any, exact: bool) -> tuple[Any, frozenset[str]]:
    """Return a model with integer operators, and the names of those ONNX Runtime would not use.

    If ONNX Runtime is not installed or refuses the model, it is returned unchanged, without names.

    Parameters
    ----------
    exact:
        Follow ONNX Runtime's decisions for this processor. Otherwise, int8 operators that it leaves
        in floating point become integer operators as well, and their names are returned. With an
        infinite scale, as of a mask, such integer operators would compute something else, so the
        decisions are followed even if `exact` is False.
    """
    if not any(node.op_type == "DequantizeLinear" for node in _operators(model.graph)):
        return model, frozenset()
    try:
        content, values = _name_operators(model).SerializeToString(), memory_of(model.graph)
        own, integers = map(_parse, optimise(content, values))
    except ValueError:
        # ONNX Runtime is not installed, or refuses the model; its message appears at the first
        # operator.
        return model, frozenset()
    if exact or _has_infinite_scales(model.graph):
        return infer_shapes(own), frozenset()
    names_here, everywhere = map(_integer_operators, (own, integers))
    return infer_shapes(integers), frozenset(everywhere - names_here)


def _has_infinite_scales(graph: Any) -> bool:
    """Return whether a constant scale of QuantizeLinear or DequantizeLinear is not finite."""
    from onnx import numpy_helper

    marks = [node for node in _operators(graph) if node.op_type in CONVERSIONS]
    scales = {node.input[1] for node in marks if len(node.input) > 1}
    values = (each for each in graph.initializer if each.name in scales)
    return not all(np.isfinite(numpy_helper.to_array(each)).all() for each in values)


def _name_operators(model: Any) -> Any:
    """Return a copy of a model whose operators have unique names, which survive optimisation."""
    import onnx

    named = onnx.ModelProto()
    named.CopyFrom(model)
    seen: set[str] = set()
    for at, node in enumerate(_operators(named.graph)):
        while not node.name or node.name in seen:
            node.name = f"{node.name or node.op_type} {at}"
        seen.add(node.name)
    return named


def _parse(content: bytes) -> Any:
    """Return the ONNX model in a file's bytes."""
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(content)
    return model


def _integer_operators(model: Any) -> set[str]:
    """Return the names of a model's nodes that compute with integers."""
    return {node.name for node in _operators(model.graph) if is_integer_operator(node.op_type)}
