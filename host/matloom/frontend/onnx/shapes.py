"""Infers types and shapes of a model's values, including those of ONNX Runtime's own operators."""

from collections.abc import Sequence
from typing import Any

from matloom.frontend.onnx.registered import add_shapes
from matloom.kernels.onnx_model import subgraphs

#: Operators of com.microsoft, each with an ONNX operator whose output has the same shape, and the
#: indices of the inputs that the latter gets. Inputs and outputs have the same type.
_SAME_SHAPE_AS: dict[str, tuple[str, Sequence[int] | slice]] = {
    "QGemm": ("Gemm", (0, 3)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearConcat": ("Concat", slice(2, None, 3)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "QLinearLeakyRelu": ("Identity", (0,)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearSigmoid": ("Identity", (0,)),
    "QLinearSoftmax": ("Identity", (0,)),
    "QLinearWhere": ("Where", (0, 1, 4)),
}
#: Domain whose shape inference in the package onnx crashes on damaged files.
_UNCHECKED = "ai.onnx.ml"
#: An operator whose inference also crashes, if its input has no type, and an operator whose output
#: has the same shape.
_UNTYPED, _TYPED = "RegexFullMatch", "IsNaN"
#: Maximum length of a vector whose elements shape inference may list, at about 50 bytes each.
_MAX_LISTED_ELEMENTS = 1 << 20
#: Attributes of com.microsoft operators that change the output shape.
_SHAPE_ATTRIBUTES = ("channels_last",)


def infer_shapes(model: Any) -> Any:
    """Return a copy of a model with all types and shapes that can be inferred."""
    found = _infer(model)
    while add_shapes(found):
        found = _infer(found)
    return found


def _infer(model: Any) -> Any:
    """Return an ONNX model with the shapes that ONNX infers, or unchanged if its nodes disagree."""
    import onnx

    shadow = onnx.ModelProto()
    shadow.CopyFrom(model)
    _hide_unchecked(shadow.graph)
    for node in shadow.graph.node:
        if node.domain == "com.microsoft" and node.op_type in _SAME_SHAPE_AS:
            _disguise(node)
    try:
        found = onnx.shape_inference.infer_shapes(shadow, data_prop=not _is_long(shadow.graph))
    except Exception:
        # If operators contradict each other, ONNX Runtime reports it.
        return model
    completed = onnx.ModelProto()
    completed.CopyFrom(model)
    for field in ("input", "output", "value_info"):
        completed.graph.ClearField(field)
        getattr(completed.graph, field).extend(getattr(found.graph, field))
    return completed


def _is_long(graph: Any) -> bool:
    """Return whether a graph has a vector with more elements than shape inference may list."""
    declared = (*graph.input, *graph.value_info, *graph.output)
    shapes = [[dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in declared]
    shapes += [list(each.dims) for each in graph.initializer]
    return any(len(shape) == 1 and shape[0] > _MAX_LISTED_ELEMENTS for shape in shapes)


def _hide_unchecked(graph: Any) -> None:
    """Replace operators whose shape inference crashes, in place, also in branches and bodies."""
    for node in graph.node:
        if node.domain == _UNCHECKED:
            node.domain = "unknown"
        elif node.op_type == _UNTYPED and node.domain in ("", "ai.onnx"):
            node.op_type = _TYPED
            node.ClearField("attribute")
        for inner in subgraphs(node):
            _hide_unchecked(inner)


def _disguise(node: Any) -> None:
    """Turn an operator, in place, into an ONNX operator whose output has the same shape.

    The operator stays as it is if it has channels last, or is a QGemm with a float output.
    """
    if any(item.name in _SHAPE_ATTRIBUTES and item.i for item in node.attribute):
        return
    if node.op_type == "QGemm" and len(node.input) < 9:
        return
    name, places = _SAME_SHAPE_AS[node.op_type]
    input_names = list(node.input)
    used_names = (
        input_names[places] if isinstance(places, slice) else [input_names[at] for at in places]
    )
    node.domain, node.op_type = "", name
    node.ClearField("input")
    node.input.extend(used_names)
    if name == "Identity":
        node.ClearField("attribute")
