"""Converts MatMulInteger to an operator whose results are its sums, which the engine runs.

With constant weights it is a convolution, otherwise a product of two computed tensors. Dynamic
quantisation computes the zero points of operands in each run, so the compiler does not know them.
The product does not need them: (x - zero) w = x w - zero w, and the second term is one number for
each column, which ONNX Runtime subtracts. If both tensors are computed, it also subtracts a number
for each row.
"""

from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.products import operand_of
from matloom.frontend.onnx.quantised import Model
from matloom.frontend.onnx.values import Values, in_file_order
from matloom.ir.attributes import BatchMatmul, Conv2D
from matloom.ir.graph import Array, Op, Quantisation, Tensor
from matloom.ir.shapes import MATRIX_RANK

#: int32 in `onnx.TensorProto.DataType`.
_INT32 = 6
#: Number of inputs of MatMulInteger: data, weights, and their zero points.
_INPUTS = 4


def split_zero_points(proto: Any) -> Any:
    """Return a ModelProto in which no MatMulInteger has a computed zero point, as far as possible.

    Other operators subtract the terms that contain zero points; see `_split_constant`. The given
    ModelProto stays unchanged, and is returned if nothing was split.
    """
    import onnx

    model, made = Model(proto), list[Any]()
    for node in proto.graph.node:
        made += _split_constant(model, node, len(made)) or [node]
    if len(made) == len(proto.graph.node):
        return proto
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    del changed.graph.node[:]
    changed.graph.node.extend(made)
    return changed


def _split_constant(model: Model, node: Any, label: int) -> list[Any]:
    """Return the operators that replace a product with constant weights; empty if it stays.

    `label` makes the names of new values unique.
    """
    from onnx import helper, numpy_helper

    if not _is_product(node):
        return []
    data, name, zero, weight_zero = [*node.input, "", ""][:_INPUTS]
    if name not in model.constants:
        return _split_computed(model, node, label)
    if not zero or zero in model.constants:
        return []
    try:
        columns = _weights(model, name, weight_zero).astype(np.int64).sum(axis=0)
    except Unsupported:
        return []
    # Sums wrap around, as do ONNX Runtime's.
    wrapped = columns.astype(np.uint64).astype(np.uint32).view(np.int32)
    own = [f"{node.output[0]} {what} {label}" for what in ("sums", "zero", "columns", "rest")]
    sums, wide, totals, rest = own
    return [
        helper.make_node("MatMulInteger", [data, name, "", weight_zero], [sums]),
        helper.make_node("Cast", [zero], [wide], to=_INT32),
        helper.make_node("Constant", [], [totals], value=numpy_helper.from_array(wrapped)),
        helper.make_node("Mul", [wide, totals], [rest]),
        helper.make_node("Sub", [sums, rest], list(node.output)),
    ]


def _split_computed(model: Model, node: Any, label: int) -> list[Any]:
    """Return the operators that replace a product of two computed tensors; empty if it stays.

    (a - x)(b - y) equals a b, minus y times the row sums of a, minus x times the column sums of
    b - y. All results wrap around, as the sums of the product do. Constant zero points stay in the
    product.
    """
    from onnx import helper, numpy_helper

    left, right, *zeros = [*node.input, "", ""][:_INPUTS]
    computed = [bool(zero) and zero not in model.constants for zero in zeros]
    if not any(computed) or not all(_is_scalar(model, zero) for zero in zeros):
        return []
    made = list[Any]()

    def add(op: str, inputs: list[str], **options: Any) -> str:
        """Append a node with one output, and return the output's name."""
        output = f"{node.output[0]} {op} {label} {len(made)}"
        made.append(helper.make_node(op, inputs, [output], **options))
        return output

    def sums_of(name: str, zero: str, axis: int) -> str:
        """Append the sum over an axis of a matrix less its zero point; return the sum's name."""
        wide = add("Cast", [name], to=_INT32)
        if zero:
            wide = add("Sub", [wide, add("Cast", [zero], to=_INT32)])
        return add("ReduceSum", [wide, add("Constant", [], value=axes[axis])])

    axes = [numpy_helper.from_array(np.array([axis])) for axis in (-1, -2)]
    known = ["" if unknown else zero for zero, unknown in zip(zeros, computed, strict=True)]
    total = add("MatMulInteger", [left, right, *known])
    for term in (0, 1):
        if computed[1 - term]:
            of_side = sums_of(left, known[0], 0) if term == 0 else sums_of(right, zeros[1], 1)
            factor = add("Cast", [zeros[1 - term]], to=_INT32)
            total = add("Sub", [total, add("Mul", [of_side, factor])])
    made[-1].output[0] = node.output[0]
    return made


def _is_scalar(model: Model, zero: str) -> bool:
    """Return whether a zero point is absent or known to be a single number."""
    if not zero:
        return True
    if zero in model.constants:
        return bool(model.constant(zero).size == 1)
    producer = model.producer(zero)
    return producer is not None and producer.op_type == "DynamicQuantizeLinear"


def _is_product(node: Any) -> bool:
    """Return whether a node is a MatMulInteger of ONNX's own operators."""
    return node.op_type == "MatMulInteger" and node.domain in ("", "ai.onnx")


def _weights(model: Model, name: str, zero: str) -> Array:
    """Return the weights (inner, columns) of a product, minus their zero points, as int8.

    Raises
    ------
    Unsupported
        They are computed, are not a matrix, or do not fit int8.
    """
    held = model.constant(name)
    zeros = model.constant(zero) if zero else np.zeros(1, held.dtype)
    if held.ndim != MATRIX_RANK or zeros.size not in (1, held.shape[1]):
        raise Unsupported(f"has weights of {held.ndim} dimensions and {zeros.size} zero points")
    wide = held.astype(np.int16) - zeros.reshape(-1).astype(np.int16)
    narrow: Array = wide.astype(np.int8)
    if not np.array_equal(narrow, wide):
        raise Unsupported("has weights that do not fit int8 less their zero point")
    return narrow


def convert_integer_product(values: Values, model: Model, node: Any) -> Claim:
    """Convert a MatMulInteger; return its exactness: sums are exact.

    Raises
    ------
    Unsupported
        A zero point is computed, weights do not fit int8, a shape is not known, or an operand has
        too few dimensions or several zero points.
    """
    data, name, zero, weight_zero = [*node.input, "", ""][:_INPUTS]
    if name not in model.constants:
        return _convert_computed(values, model, node)
    weights = _weights(model, name, weight_zero)
    zeros = model.constant(zero) if zero else np.zeros(1, np.uint8)
    given, made = values.known.get(data), values.known.get(node.output[0])
    if given is None or made is None or given.dtype not in ("int8", "uint8"):
        raise Unsupported(f"has {data!r}, whose shape is known only at run time")
    if zeros.size != 1 or len(given.shape) < MATRIX_RANK:
        raise Unsupported(f"has data of {len(given.shape)} dimensions and {zeros.size} zero points")
    inner, columns = weights.shape
    rows = int(np.prod(given.shape[:-1]))
    scale = Quantisation(scale=(1.0,), zero_point=(int(zeros.item()),))
    number = values.bytes_of(data, in_file_order(len(given.shape)), scale)
    result = node.output[0]
    held = values.tensors[number].quantisation
    image = values.add_operator(Op.RESHAPE, [number], (1, 1, rows, inner), held, f"{data} rows")
    filters = np.ascontiguousarray(weights.T).reshape(columns, 1, 1, inner)
    unscaled = Quantisation(scale=(1.0,), zero_point=(0,))
    inputs = [
        image,
        values.constant(filters, f"{result} weights", unscaled),
        values.constant(np.zeros(columns, np.int32), f"{result} bias"),
    ]
    sums = values.add(Tensor(name=f"{result} sums", shape=(1, 1, rows, columns), dtype="int32"))
    values.node(Op.CONV_2D, inputs, [sums], Conv2D())
    values.node(Op.RESHAPE, [sums], [values.provide(result)])
    return Claim(unit="sums", reachable=1, differing=0, channels=columns)


def _convert_computed(values: Values, model: Model, node: Any) -> Claim:
    """Convert a MatMulInteger of two computed tensors; return its exactness: sums are exact.

    Raises
    ------
    Unsupported
        A zero point is computed or has several elements, or an operand has too few dimensions.
    """
    names, operands = [*node.input, "", ""][:_INPUTS], []
    for name, zero in zip(names[:2], names[2:], strict=True):
        zeros = model.constant(zero) if zero else np.zeros(1, np.uint8)
        if zeros.size != 1:
            raise Unsupported(f"has {zeros.size} zero points for {name!r}")
        kind = Quantisation(scale=(1.0,), zero_point=(int(zeros.item()),))
        operands.append(operand_of(values, model, name, kind))
    (left, adj_x), (right, adj_y) = operands
    result = node.output[0]
    made = values.known.get(result)
    if made is None:
        raise Unsupported(f"has {result!r}, whose shape is known only at run time")
    sums = values.add(Tensor(name=f"{result} sums", shape=made.shape, dtype="int32"))
    values.node(Op.BATCH_MATMUL, [left, right], [sums], BatchMatmul(adj_x=adj_x, adj_y=adj_y))
    values.node(Op.RESHAPE, [sums], [values.provide(result)])
    return Claim(unit="sums", reachable=1, differing=0)
