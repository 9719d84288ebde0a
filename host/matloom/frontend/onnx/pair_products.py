"""Converts QLinearMul, the element-wise product of two tensors, to MUL.

ONNX Runtime scales the product of two differences from zero points like the sum of a layer.
"""

from typing import Any

import numpy as np

from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.pairs import Pairs
from matloom.frontend.onnx.quantised import Model
from matloom.frontend.onnx.unary import convert_unary
from matloom.frontend.onnx.values import Values
from matloom.frontend.onnx.weighted import multipliers_for
from matloom.ir.graph import Array, Op


def convert_pair_product(values: Values, model: Model, node: Any) -> Claim:
    """Convert a QLinearMul; return the number of pairs of bytes with results that can differ.

    Raises
    ------
    Unsupported
        The engine does not support such a product.
    """
    operands = node.input[0], node.input[3]
    if any(name in model.constants and model.constant(name).size == 1 for name in operands):
        return convert_unary(values, model, node)
    pairs = Pairs(values, model, node)
    scales, stated = pairs.int8_quantisations(), _multiplier(pairs)
    pairs.add(values, Op.MUL, scales, stated)
    differing = pairs.count_differences(Op.MUL, scales, stated)
    return Claim(unit="pairs of inputs", reachable=len(pairs.expected), differing=differing)


def _multiplier(pairs: Pairs) -> Array:
    """Return the multiplier and shift that round most products as ONNX Runtime does.

    The result is int32 (2, 1).
    """
    kinds = pairs.int8_quantisations()
    first, second = (
        side.astype(np.int64) - kind.zero_point[0]
        for side, kind in zip(pairs.bytes, kinds[:2], strict=True)
    )
    products = first * second
    one, other, output = (np.float32(kind.scale[0]) for kind in kinds)
    scale = np.full(1, one * other / output, np.float32)
    reach = products.min(keepdims=True), products.max(keepdims=True)
    data, _claim = multipliers_for(scale, reach, pairs.output_quantisation, pairs.dtype)
    return data
