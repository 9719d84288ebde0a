"""Layers in floating-point modes: fp32 products, added in the order that decision 0008 defines."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from matloom.arch import floats
from matloom.arch.floats import FLOAT_FORMATS
from matloom.arch.modes import STORAGE
from matloom.ir.attributes import Conv2D, FullyConnected, MatrixProduct
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.shapes import BIAS
from matloom.kernels.requantise import convert, limit
from matloom.kernels.windows import pad, windows

_Floats = NDArray[np.float32]


def _to_numbers(array: Array) -> _Floats:
    """Return a tensor's numbers as float32; an array of uint16 holds bf16 patterns."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def _round_to_mode(array: Array, mode: str) -> _Floats:
    """Return float32 numbers rounded to the format of a mode, as float32."""
    return _to_numbers(convert(array, STORAGE[mode]))


def float_layer(graph: Graph, node: Node, inputs: Sequence[Array], float_rows: int) -> Array:
    """Return a CONV_2D or FULLY_CONNECTED in a float mode, added in steps of `float_rows` products.

    Each kernel row is cut into steps of `float_rows` numbers, the last padded with +0. The products
    of a step are added in a balanced tree; the sums of steps are added one after another, kernel
    row by kernel row (decision 0008).
    """
    attributes = node.attributes
    assert isinstance(attributes, Conv2D | FullyConnected)
    assert attributes.mode is not None
    image, weights = _to_numbers(inputs[0]), _round_to_mode(inputs[1], attributes.mode)
    if isinstance(attributes, FullyConnected):
        image, weights = image.reshape(-1, 1, 1, weights.shape[1]), weights[:, None, None, :]
        patches = image[:, :, :, None, None, :]
    else:
        kernel = (weights.shape[1], weights.shape[2])
        padded = pad(image, attributes.padding, 0)
        patches = windows(padded, kernel, attributes.stride, attributes.dilation)
    rows = weights.shape[1]
    patches = patches.reshape(-1, rows, weights[0, 0].size)
    with np.errstate(all="ignore"):
        sums = _ordered_sums(patches, weights.reshape(len(weights), rows, -1), float_rows)
        if len(inputs) > BIAS:
            sums = sums + inputs[BIAS].reshape(-1)
    output = graph.tensors[node.output]
    limited = limit(sums, attributes.activation).reshape(output.shape)
    return convert(limited, output.dtype)


def _to_float32(patterns: Array, name: str | None) -> _Floats:
    """Return bit patterns of a format, by name, as float32 numbers; None stands for fp32."""
    raw = patterns.astype(np.int64)
    if name in FLOAT_FORMATS:
        raw = np.asarray(floats.widen(raw, FLOAT_FORMATS[name]))
    return raw.astype(np.uint32).view(np.float32)


def matrix_product(graph: Graph, node: Node, inputs: Sequence[Array], float_rows: int) -> Array:
    """Return the engine's exact output of a MATRIX_PRODUCT, as bit patterns (rows, columns)."""
    attributes, output = node.attributes_as(MatrixProduct), graph.tensors[node.output]
    left, right = (_to_float32(each, attributes.mode) for each in inputs[:2])
    with np.errstate(all="ignore"):
        sums = _ordered_sums(left[:, None], right[:, None], float_rows)
        for residual in inputs[3:]:
            sums = sums + _to_float32(residual, output.number_format)
        sums = sums + inputs[2]
    ends = (int(np.float32(end).view(np.uint32)) for end in (attributes.low, attributes.high))
    limited = floats.limit(sums.view(np.uint32).astype(np.int64), *ends)
    if output.number_format in FLOAT_FORMATS:
        limited = floats.narrow(limited, FLOAT_FORMATS[output.number_format])
    return np.asarray(limited).astype(output.dtype)


def _ordered_sums(patches: _Floats, weights: _Floats, size: int) -> _Floats:
    """Return sums of products, (positions, channels), added in the order of `float_layer`.

    `patches` are the inputs of each position, (positions, kernel rows, numbers); `weights` are
    (channels, kernel rows, numbers). `size` numbers of a kernel row make a step.
    """
    total = None
    for row in range(patches.shape[1]):
        for start in range(0, patches.shape[2], size):
            terms = _pad_last_axis(patches[:, row, start : start + size], size)[
                :, None, :
            ] * _pad_last_axis(weights[:, row, start : start + size], size)
            while terms.shape[2] > 1:
                terms = terms[:, :, 0::2] + terms[:, :, 1::2]
            total = terms[:, :, 0] if total is None else total + terms[:, :, 0]
    assert total is not None
    return total


def _pad_last_axis(numbers: _Floats, size: int) -> _Floats:
    """Return a matrix whose rows are padded with zeros to `size` numbers."""
    missing = size - numbers.shape[-1]
    return np.pad(numbers, ((0, 0), (0, missing))) if missing else numbers
