"""Converts quantised products of two computed tensors to BATCH_MATMUL."""

from dataclasses import replace
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.functions import bytes_as_int8
from matloom.frontend.onnx.quantised import Model, attribute, quantisation_of
from matloom.frontend.onnx.values import Values, as_int8, in_file_order
from matloom.frontend.onnx.weighted import multipliers_for
from matloom.ir.attributes import BatchMatmul
from matloom.ir.graph import Array, Op, Quantisation
from matloom.ir.shapes import MATRIX_RANK


def convert_product(values: Values, model: Model, node: Any) -> Claim:
    """Convert a QLinearMatMul or QGemm whose second operand is computed; return its exactness.

    Raises
    ------
    Unsupported
        An operand is a vector or not of bytes, or the product is scaled, has a bias, or is float.
    """
    names = list(node.input)
    gemm = node.op_type == "QGemm"
    if gemm and (len(names) < 9 or names[6] or attribute(node, "alpha", 1.0) != 1.0):
        raise Unsupported(
            "adds a bias to a product of two computed tensors, or scales it, or is float"
        )
    stated = names[-2:] if gemm else names[6:8]
    kinds = [quantisation_of(model, *pair) for pair in (names[1:3], names[4:6], stated)]
    left, right = (
        operand_of(values, model, name, kind, transposed=bool(gemm and attribute(node, flag, 0)))
        for name, kind, flag in zip((names[0], names[3]), kinds, ("transA", "transB"), strict=False)
    )
    data, claim = _multiplier(values, node, (left, right), kinds)
    made = values.known[node.output[0]]
    inputs = [left[0], right[0], values.constant(data, f"{node.output[0]} multiplier")]
    attributes = BatchMatmul(adj_x=left[1], adj_y=right[1])
    signed = as_int8(kinds[2], made.dtype)
    result = values.add_operator(
        Op.BATCH_MATMUL, inputs, made.shape, signed, node.output[0], attributes
    )
    values.hold(node.output[0], in_file_order(len(made.shape)), result)
    return claim


def operand_of(
    values: Values, model: Model, name: str, quantisation: Quantisation, *, transposed: bool = False
) -> tuple[int, bool]:
    """Return an int8 tensor of an operand, by number, and whether the product must transpose it.

    `transposed` says whether the file's operator transposes the operand. The tensor has the axes
    of the file, or the last two exchanged if the operand exists in that order.
    """
    if name in model.constants:
        data = model.constant(name)
        _require_byte_matrices(data.dtype.name, data.ndim)
        signed = as_int8(quantisation, data.dtype.name)
        return values.constant(bytes_as_int8(data), name, signed), transposed
    value = values.known.get(name)
    if value is None:
        raise Unsupported(f"has {name!r}, whose shape is known only at run time")
    _require_byte_matrices(value.dtype, len(value.shape))
    *batch, rows, columns = in_file_order(len(value.shape))
    # Moving rows of bytes is cheap, moving single bytes is not.
    last = {order[-1] for order in value.held}
    swapped = rows in last and columns not in last
    order = (*batch, columns, rows) if swapped else (*batch, rows, columns)
    return values.bytes_of(name, order, quantisation), transposed != swapped


def _require_byte_matrices(dtype: str, rank: int) -> None:
    """Raise `Unsupported` unless an operand is a matrix, or several, of 8-bit integers."""
    if dtype not in ("int8", "uint8") or rank < MATRIX_RANK:
        raise Unsupported(f"multiplies by {dtype} of {rank} dimensions")


def _multiplier(
    values: Values,
    node: Any,
    operands: tuple[tuple[int, bool], tuple[int, bool]],
    kinds: list[Quantisation],
) -> tuple[Array, Claim]:
    """Return the multiplier and shift, int32 (2, 1), and how many sums differ with them.

    `operands` are the results of `operand_of`, `kinds` the quantisations of both and of the output.
    """
    first, second, output = (np.float32(kind.scale[0]) for kind in kinds)
    (left, transposed), (right, _) = operands
    inner = values.tensors[left].shape[-2 if transposed else -1]
    ends = []
    for number in (left, right):
        quantisation = values.tensors[number].quantisation
        assert quantisation is not None
        (zero,) = quantisation.zero_point
        ends.append((-128 - zero, 127 - zero))
    products = [inner * one * other for one in ends[0] for other in ends[1]]
    reach = np.array([min(products)]), np.array([max(products)])
    scale = np.full(1, first * second / output, np.float32)
    dtype = values.known[node.output[0]].dtype
    data, claim = multipliers_for(scale, reach, kinds[2], dtype)
    return data, replace(claim, channels=0, repaired=0, affected=0, unproven=())
