"""Converts element-wise operators and Softmax."""

from collections.abc import Callable

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.values import Order
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Attributes,
    Function,
    LeakyRelu,
    Softmax,
)
from matloom.ir.graph import Op

_Converter = Callable[[FloatValues, FileNode], None]

_NO_ACTIVATION = Arithmetic()
#: Upper limit of RELU6, and the slope and the offset of the HardSigmoid that RELU6 can compute.
_SIX, _SLOPE, _OFFSET = 6.0, 1 / 6, 0.5
_TOLERANCE = 1e-6
#: Magnitude from which a limit of Clip limits nothing; exporters write about the largest float.
_NO_LIMIT = 1e38
_SQUARE = 2


def _binary_converter(op: Op, attributes: Attributes | None = None) -> _Converter:
    """Return a converter that applies a binary operator to a node's inputs, left to right."""

    def convert(values: FloatValues, node: FileNode) -> None:
        """Add operator `op` for a node of the file, once for each further input."""
        order = values.order_of(node.inputs)
        made, *others = values.operands(node.inputs, order)
        for other in others:
            made = values.add(op, [made, other], attributes, name=node.output)
        values.hold(node.output, order, made)

    return convert


def _convert_maximum(values: FloatValues, node: FileNode) -> None:
    """Convert Max without a constant of the least float, by which exporters keep scores finite."""
    least = np.finfo(np.float32).min
    names = tuple(
        name
        for name in node.inputs
        if not (values.is_constant(name) and (values.constants[name] <= least).all())
    )
    if len(names) == 1 and values.shape(names[0]) == values.broadcast_shape(node.inputs):
        values.copy(names[0], node.output)
    else:
        _binary_converter(Op.MAXIMUM)(values, node)


def _convert_division(values: FloatValues, node: FileNode) -> None:
    """Convert Div by a constant to a product with its reciprocal."""
    divisor = values.constant(node.inputs[1])
    if not np.all(divisor):
        raise Unsupported("divides by zero")
    order = values.order_of(node.inputs)
    shape = (1,) * (len(order) - divisor.ndim) + divisor.shape
    factors = np.ascontiguousarray((1 / divisor).reshape(shape).transpose(order), np.float32)
    operands = [values.tensor_in_order(node.source, order), values.builder.constant(factors)]
    output = values.add(Op.MUL, operands, _NO_ACTIVATION, name=node.output)
    values.hold(node.output, order, output)


def _first_input(values: FloatValues, node: FileNode) -> tuple[int, Order]:
    """Return the tensor number of an operator's first input, and its order of axes."""
    order = values.order_of([node.source])
    return values.tensor_in_order(node.source, order), order


def _unary_converter(op: Op) -> _Converter:
    """Return a converter of nodes with one input to an operator without attributes."""

    def convert(values: FloatValues, node: FileNode) -> None:
        """Add operator `op` for a node of the file with one input."""
        number, order = _first_input(values, node)
        values.hold(node.output, order, values.add(op, [number], name=node.output))

    return convert


def add_function(values: FloatValues, function: str, source: str, name: str) -> None:
    """Add a FUNCTION that makes the value `name` from the value `source`.

    `function` is the name of a function, or an expression.
    """
    order = values.order_of([source])
    attributes = Function(function=function)
    output = values.add(Op.FUNCTION, [values.tensor_in_order(source, order)], attributes, name=name)
    values.hold(name, order, output)


def _convert_gelu(values: FloatValues, node: FileNode) -> None:
    """Convert a Gelu to the exact function or to its approximation by tanh."""
    form = node.options.get("approximate", b"none")
    function = "GELU_TANH" if form == b"tanh" else "GELU"
    add_function(values, function, node.source, node.output)


def _convert_square(values: FloatValues, node: FileNode) -> None:
    """Convert Pow by 2 to a product; other powers become functions in `find_chains`."""
    exponent = values.constant(node.inputs[1])
    if exponent.size != 1 or exponent.reshape(-1)[0] != _SQUARE:
        raise Unsupported("has exponents that differ")
    number, order = _first_input(values, node)
    values.hold(
        node.output, order, values.add(Op.MUL, [number, number], _NO_ACTIVATION, name=node.output)
    )


def _convert_negation(values: FloatValues, node: FileNode) -> None:
    """Convert Neg to a product with -1, because TensorFlow Lite's NEG ignores scales."""
    number, order = _first_input(values, node)
    operands = [number, values.number(-1)]
    values.hold(node.output, order, values.add(Op.MUL, operands, _NO_ACTIVATION, name=node.output))


def _convert_leaky_relu(values: FloatValues, node: FileNode) -> None:
    """Convert a LeakyRelu; its slope is rounded to float32."""
    number, order = _first_input(values, node)
    attributes = LeakyRelu(alpha=float(np.float32(node.options.get("alpha", 0.01))))
    output = values.add(Op.LEAKY_RELU, [number], attributes, name=node.output)
    values.hold(node.output, order, output)


def _convert_clip(values: FloatValues, node: FileNode) -> None:
    """Convert Clip to RELU or RELU6 if its limits allow, otherwise to MAXIMUM and MINIMUM."""
    number, order = _first_input(values, node)
    limits = [
        None if value is None else float(np.float32(str(value)))
        for value in (values.option(node, name, at) for name, at in (("min", 1), ("max", 2)))
    ]
    if limits in ([0.0, _SIX], [0.0, None]):
        op = Op.RELU6 if limits[1] else Op.RELU
        number = values.add(op, [number], name=node.output)
    else:
        for op, limit in zip((Op.MAXIMUM, Op.MINIMUM), limits, strict=True):
            if limit is not None and abs(limit) < _NO_LIMIT:
                number = values.add(op, [number, values.number(limit)])
    values.hold(node.output, order, number)


def _convert_hard_sigmoid(values: FloatValues, node: FileNode) -> None:
    """Convert HardSigmoid with a slope of 1/6 and an offset of 1/2 to RELU6 of x + 3, times 1/6."""
    slope, offset = node.options.get("alpha", 0.2), node.options.get("beta", _OFFSET)
    if abs(slope - _SLOPE) > _TOLERANCE or abs(offset - _OFFSET) > _TOLERANCE:
        raise Unsupported(f"has a slope of {slope:.4g}, not a sixth")
    number, order = _first_input(values, node)
    limited = Arithmetic(activation=Activation.RELU6)
    number = values.add(Op.ADD, [number, values.number(3.0)], limited)
    output = values.add(Op.MUL, [number, values.number(_SLOPE)], _NO_ACTIVATION, name=node.output)
    values.hold(node.output, order, output)


def _convert_softmax(values: FloatValues, node: FileNode) -> None:
    """Convert a Softmax or LogSoftmax; its axis becomes the last one."""
    shape = values.shape(node.source)
    axis = int(node.options.get("axis", -1 if node.opset >= 13 else 1)) % len(shape)
    kind = Op.LOG_SOFTMAX if node.op == "LogSoftmax" else Op.SOFTMAX
    if node.opset < 13 and any(size != 1 for size in shape[axis + 1 :]):
        raise Unsupported("normalises several axes together")
    axis = axis if node.opset >= 13 or len(shape) == axis + 1 else len(shape) - 1
    order = (*(each for each in range(len(shape)) if each != axis), axis)
    attributes = Softmax(beta=1.0) if kind is Op.SOFTMAX else None
    output = values.add(
        kind, [values.tensor_in_order(node.source, order)], attributes, name=node.output
    )
    values.hold(node.output, order, output)


def _convert_prelu(values: FloatValues, node: FileNode) -> None:
    """Convert PRelu with constant slopes."""
    order = values.order_of(node.inputs[:1])
    slopes = values.constant(node.inputs[1])
    full = slopes.reshape((1,) * (len(order) - slopes.ndim) + slopes.shape).transpose(order)
    # TensorFlow Lite's slopes lack the batch axis.
    full = full[0] if len(full) == 1 and full.ndim > 1 else full
    constant = values.builder.constant(np.ascontiguousarray(full, np.float32))
    operands = [values.tensor_in_order(node.source, order), constant]
    values.hold(node.output, order, values.add(Op.PRELU, operands, name=node.output))


def _convert_where(values: FloatValues, node: FileNode) -> None:
    """Convert Where with a constant condition to a sum.

    Its terms are the two operands, set to zero where they are not chosen.
    """
    condition = values.constant(node.source).astype(bool)
    constants = [values.constants[name] for name in node.inputs if values.is_constant(name)]
    condition = np.broadcast_to(condition, np.broadcast_shapes(*(each.shape for each in constants)))
    order, terms = values.order_of(node.inputs), list[int]()
    for name, chosen in zip(node.inputs[1:], (condition, ~condition), strict=True):
        if values.is_constant(name):
            data = np.where(chosen, values.constant(name), 0)
            terms += [values.constant_in_order(data, order)] if data.any() else []
            continue
        factors = values.constant_in_order(chosen, order)
        terms.append(
            values.add(Op.MUL, [values.tensor_in_order(name, order), factors], _NO_ACTIVATION)
        )
    made, *others = terms
    for other in others:
        made = values.add(Op.ADD, [made, other], _NO_ACTIVATION, name=node.output)
    values.hold(node.output, order, made)


def _convert_identity(values: FloatValues, node: FileNode) -> None:
    """Convert Identity and Dropout, whose output is another name of the input."""
    if values.is_constant(node.source):
        values.constants[node.output] = values.constants[node.source]
        return
    values.copy(node.source, node.output)


#: Converters by operator name.
ELEMENTWISE: dict[str, _Converter] = {
    "Add": _binary_converter(Op.ADD, _NO_ACTIVATION),
    "Clip": _convert_clip,
    "Div": _convert_division,
    "Dropout": _convert_identity,
    "Gelu": _convert_gelu,
    "HardSigmoid": _convert_hard_sigmoid,
    "HardSwish": _unary_converter(Op.HARD_SWISH),
    "Identity": _convert_identity,
    "LeakyRelu": _convert_leaky_relu,
    "LogSoftmax": _convert_softmax,
    "Max": _convert_maximum,
    "Min": _binary_converter(Op.MINIMUM),
    "Mul": _binary_converter(Op.MUL, _NO_ACTIVATION),
    "Neg": _convert_negation,
    "PRelu": _convert_prelu,
    "Pow": _convert_square,
    "Relu": _unary_converter(Op.RELU),
    "Sigmoid": _unary_converter(Op.LOGISTIC),
    "Softmax": _convert_softmax,
    "Sub": _binary_converter(Op.SUB, _NO_ACTIVATION),
    "Tanh": _unary_converter(Op.TANH),
    "Where": _convert_where,
}
