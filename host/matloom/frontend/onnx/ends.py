"""Gives inputs and outputs of types that NumPy lacks wider types, which have the same values.

Arrays of bfloat16, or of numbers of 8 bits or fewer, are passed as float32, int8 or uint8; a Cast
at the input or output converts them from or to the declared type. The wide type has every value of
the narrow one, so outputs lose nothing; inputs are rounded as Cast rounds them.
"""

from collections.abc import Mapping
from typing import Any

from matloom.kernels.onnx_model import subgraphs

#: Wider types for those that NumPy lacks: float32 (1), uint8 (2) and int8 (3). Keys and values are
#: members of `onnx.TensorProto.DataType`.
_WIDER_TYPES = {
    **dict.fromkeys((16, 17, 18, 19, 20, 23, 24), 1),
    **dict.fromkeys((21, 25), 2),
    **dict.fromkeys((22, 26), 3),
}


def widen_inputs_and_outputs(graph: Any) -> None:
    """Give inputs and outputs of a GraphProto, in place, types that NumPy has, with a Cast at each.

    The graph stays unchanged if an output of a type that NumPy lacks is also an input.
    """
    constants = {each.name for each in graph.initializer}
    given = [value for value in graph.input if _numpy_lacks(value) and value.name not in constants]
    made = {value.name: value for value in graph.output if _numpy_lacks(value)}
    if made.keys() & {value.name for value in graph.input} or not (given or made):
        return
    inner = {name: f"{name} (narrow)" for name in (*(value.name for value in given), *made)}
    _rename(graph, inner)
    entering = [_cast(value.name, inner[value.name], _element_type(value)) for value in given]
    leaving = [
        _cast(inner[name], name, _WIDER_TYPES[_element_type(value)]) for name, value in made.items()
    ]
    nodes = [*entering, *graph.node, *leaving]
    del graph.node[:]
    graph.node.extend(nodes)
    for value in (*given, *graph.output):
        if _numpy_lacks(value):
            value.type.tensor_type.elem_type = _WIDER_TYPES[_element_type(value)]


def _element_type(value: Any) -> int:
    """Return the number of a value's element type in ONNX (`TensorProto.DataType`)."""
    return int(value.type.tensor_type.elem_type)


def _numpy_lacks(value: Any) -> bool:
    """Return whether a value is a tensor of a type that NumPy does not have, such as bfloat16."""
    return value.type.WhichOneof("value") == "tensor_type" and _element_type(value) in _WIDER_TYPES


def _cast(source: str, output: str, kind: int) -> Any:
    """Return an ONNX Cast node to the type with code `kind`."""
    import onnx

    return onnx.helper.make_node("Cast", [source], [output], to=kind)


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    """Rename values in all operators that read or make them, also in branches and bodies."""
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [names.get(name, name) for name in side]
        for inner in subgraphs(node):
            _rename(inner, names)
            for value in inner.output:
                value.name = names.get(value.name, value.name)
