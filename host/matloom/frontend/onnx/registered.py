"""Operators of ONNX models that users registered: their shapes, and their conversion to nodes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.model import DTYPES
from matloom.frontend.onnx.quantised import Model
from matloom.frontend.onnx.values import Values
from matloom.frontend.registered import RegisteredOperatorError, nodes_of
from matloom.ir.graph import Tensor
from matloom.kernels.expansion import complete_use
from matloom.kernels.registered import (
    OperatorError,
    OperatorUse,
    RegisteredOperator,
    find_registered,
)


def registered_node(node: Any) -> RegisteredOperator | None:
    """Return the registered operator that a node uses, or None if there is none.

    Only operators of custom domains can be registered.
    """
    return find_registered(f"{node.domain}.{node.op_type}") if node.domain else None


def add_shapes(model: Any) -> bool:
    """Add types and shapes of registered operators' outputs to a ModelProto, in place.

    Returns whether any were added.

    Raises
    ------
    RegisteredOperatorError
        The shapes or the kernel of an operator do not fit the registration.
    """
    import onnx

    graph, constants, added = model.graph, Model(model), False
    values = (*graph.input, *graph.value_info, *graph.output)
    known = {
        value.name: tensor for value in values if (tensor := _declared_tensor(value)) is not None
    }
    for node in graph.node:
        operator = registered_node(node)
        if operator is None or all(name in known for name in node.output):
            continue
        inputs = [_input_tensor(constants, known, name) for name in node.input]
        if None in inputs:
            continue
        for tensor in _operator_use(operator, node, tuple(each for each in inputs if each)).outputs:
            kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
            info = onnx.helper.make_tensor_value_info(tensor.name, kind, tensor.shape)
            ends = [value for value in graph.output if value.name == tensor.name]
            for value in ends or [graph.value_info.add()]:
                value.CopyFrom(info)
            known[tensor.name], added = tensor, True
    return added


def add_registered(
    values: Values, model: Model, operator: RegisteredOperator, node: Any, index: int
) -> None:
    """Add the nodes of a registered operator; `index` is the operator's index in the model.

    Raises
    ------
    Unsupported
        The operator reads or makes a value of unknown type or shape.
    RegisteredOperatorError
        Its shapes, kernel or stages do not fit the registration.
    """
    for name in (*node.input, *node.output):
        if name not in values.known and name not in model.constants:
            raise Unsupported(f"has {name!r}, whose shape is known only at run time")
    inputs = [
        values.constant(model.constant(name), name)
        if name in model.constants
        else values.file_tensor(name)
        for name in node.input
    ]
    use = _operator_use(operator, node, tuple(values.tensors[number] for number in inputs))
    outputs = [values.opaque_output(name) for name in node.output]
    try:
        values.operators += nodes_of(operator, use, (inputs, outputs), index, values.add)
    except OperatorError as error:
        raise RegisteredOperatorError(str(error), hint=error.hint) from error


def _operator_use(
    operator: RegisteredOperator, node: Any, inputs: tuple[Tensor, ...]
) -> OperatorUse:
    """Return a registered operator's use by a node: inputs, attributes, outputs."""
    import onnx

    attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    use = OperatorUse(inputs=inputs, attributes={k: _plain_value(v) for k, v in attributes.items()})
    try:
        return complete_use(operator, use, list(node.output))
    except OperatorError as error:
        raise RegisteredOperatorError(str(error), hint=error.hint) from error


def _plain_value(value: Any) -> Any:
    """Return the value of an attribute, with bytes as text, and tensors as arrays."""
    import onnx

    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return [_plain_value(item) for item in value] if isinstance(value, list) else value


def _input_tensor(model: Model, known: Mapping[str, Tensor], name: str) -> Tensor | None:
    """Return a node's input as a tensor, with data if it is constant; None if it is not known."""
    if name in model.constants:
        return Tensor.constant(name, model.constant(name))
    return known.get(name)


def _declared_tensor(value: Any) -> Tensor | None:
    """Return the tensor that a ValueInfoProto declares; None if its type or a size is unknown."""
    tensor = value.type.tensor_type
    dtype = DTYPES.get(tensor.elem_type)
    sized = tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)
    if dtype is None or not sized:
        return None
    shape = tuple(dim.dim_value for dim in tensor.shape.dim)
    return Tensor(name=value.name, shape=shape, dtype=dtype)
