"""Runs QLinearAdd on the engine as TensorFlow Lite's ADD, compared on all pairs of inputs.

ONNX Runtime adds in float32, in an order of operations that depends on the processor; the engine
adds integers with 20 bits more than a byte. Both are functions of two bytes, so all 65,536 pairs
are compared. If some differ, scales close to the file's are tried.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.functions import every_byte, every_pair, run_alone
from matloom.frontend.onnx.quantised import Model, quantisation_of
from matloom.frontend.onnx.values import Values, as_signed
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.kernels.elementwise import add

#: Distance to a half below which float32 errors decide how a sum is rounded.
_NEAR = 1e-3
#: Number of such pairs above which the scales produce exact halves, and other scales do not help.
_MOST = 2048
#: Relative changes of a scale to try: multiples of a fraction of float32's precision.
_STEP, _STEPS = 2.0**-26, 24


class _Operands:
    """The three quantisations of a QLinearAdd, and what is known about its inputs."""

    def __init__(self, values: Values, model: Model, node: Any) -> None:
        names = list(node.input)
        self.names, self.output = (names[0], names[3]), node.output[0]
        self.constants = [
            model.constant(name) if name in model.constants else None for name in self.names
        ]
        self.dtypes = tuple(
            values.known[name].dtype if data is None else data.dtype.name
            for name, data in zip(self.names, self.constants, strict=True)
        )
        self.made = quantisation_of(model, names[6], names[7] if len(names) > 7 else "")
        self.given = tuple(quantisation_of(model, *names[at : at + 2]) for at in (1, 4))
        self.dtype = values.known[self.output].dtype
        if {*self.dtypes, self.dtype} - {"int8", "uint8"}:
            raise Unsupported(f"adds {self.dtypes[0]} and {self.dtypes[1]}")

    def signed(self) -> list[Quantisation]:
        """Return the int8 quantisations of both inputs and the output."""
        pairs = zip((*self.given, self.made), (*self.dtypes, self.dtype), strict=True)
        return [as_signed(quantisation, dtype) for quantisation, dtype in pairs]


def convert_sum(values: Values, model: Model, node: Any) -> Claim:
    """Add the operator of a QLinearAdd; return for how many input pairs it differs from the node.

    Raises
    ------
    Unsupported
        The engine does not support such a sum.
    """
    operands = _Operands(values, model, node)
    computed = [name for name in operands.names if name not in model.constants]
    shape = values.known[operands.output].shape
    if not computed or any(values.known[name].shape != shape for name in computed):
        raise Unsupported("broadcasts a computed input")
    order = values.order_of(*computed)
    pairs = _pairs(operands)
    wanted = _expected(model, node, operands, pairs)
    scales, differing = _fitted(operands, [_signed_bytes(each) for each in pairs], wanted)
    numbers = []
    for at, name in enumerate(operands.names):
        data = operands.constants[at]
        if data is None:
            number = values.bytes_of(name, order, operands.given[at])
            numbers.append(values.read_as(number, scales[at], scaled=True))
        else:
            wide = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
            moved = np.ascontiguousarray(_signed_bytes(wide).transpose(order))
            numbers.append(values.constant(moved, f"{operands.output} addend", scales[at]))
    ordered = tuple(shape[axis] for axis in order)
    attributes = Arithmetic()
    result = values.made(Op.ADD, numbers, ordered, scales[2], operands.output, attributes)
    values.hold(operands.output, order, result)
    return Claim(unit="pairs of inputs", reachable=len(wanted), differing=differing)


def _signed_bytes(array: Array) -> Array:
    """Return bytes shifted to int8."""
    if array.dtype == np.int8:
        return array
    moved: Array = (array.astype(np.int16) - 128).astype(np.int8)
    return moved


def _pairs(operands: _Operands) -> tuple[Array, Array]:
    """Return the pairs of bytes that can occur: all, or every byte with each constant byte."""
    first, second = every_pair((operands.dtypes[0], operands.dtypes[1]))
    for data, side in zip(operands.constants, (first, second), strict=True):
        if data is not None:
            meets = np.isin(side, data)
            first, second = first[meets], second[meets]
    return first, second


def _expected(model: Model, node: Any, operands: _Operands, pairs: tuple[Array, Array]) -> Array:
    """Return ONNX Runtime's int8 sums; it uses other kernels for a broadcast constant."""
    names, output, dtype = operands.names, operands.output, operands.dtype
    if names[0] == names[1]:
        raise Unsupported("adds a value to itself")
    arrays = dict(zip(names, pairs, strict=True))
    wanted = run_alone(model.proto, [node], arrays, output, dtype)
    for at, data in enumerate(operands.constants):
        if data is None:
            continue
        column = np.unique(data)[:, np.newaxis]
        row = every_byte(operands.dtypes[1 - at])[np.newaxis]
        arrays = {names[at]: column, names[1 - at]: np.repeat(row, len(column), axis=0)}
        table = run_alone(model.proto, [node], arrays, output, dtype)
        places = np.searchsorted(column[:, 0], pairs[at])
        other = pairs[1 - at].astype(np.int64) - int(row.min())
        if not np.array_equal(table[places, other], wanted):
            raise Unsupported("adds a constant whose sums depend on its shape")
    return _signed_bytes(wanted)


def _fitted(
    operands: _Operands, pairs: list[Array], wanted: Array
) -> tuple[list[Quantisation], int]:
    """Return the quantisations that match the most sums, and how many still differ."""
    best, whole = operands.signed(), _grid(pairs)
    least = _misses(best, whole, wanted)
    if not least:
        return best, 0
    near = _near(best, pairs)
    if near.sum() > _MOST:
        return best, least
    few, few_wanted = [each[near] for each in pairs], wanted[near]
    for trial in _trials(operands.signed(), few, few_wanted):
        if _misses(trial, few, few_wanted) < least:
            misses = _misses(trial, whole, wanted)
            if misses < least:
                best, least = trial, misses
        if not least:
            break
    return best, least


def _grid(pairs: list[Array]) -> list[Array]:
    """Return all pairs of two sets of bytes as a column and a row: each byte is scaled once."""
    first, second = pairs
    width = int(np.argmax(first != first[0])) or len(first)
    return [first[::width, np.newaxis], second[np.newaxis, :width]]


def _exact(scales: list[Quantisation], pairs: list[Array]) -> list[Array]:
    """Return each input's contribution to the output, in output steps."""
    (output_scale,) = scales[2].scale
    return [
        (side.astype(np.float64) - given.zero_point[0]) * given.scale[0] / output_scale
        for side, given in zip(pairs, scales[:2], strict=True)
    ]


def _near(scales: list[Quantisation], pairs: list[Array]) -> Array:
    """Return the pairs whose sums are close to a half, in the order of bytes."""
    total = sum(_exact(scales, pairs)) + scales[2].zero_point[0]
    near = np.abs(total - np.floor(total) - 0.5) < _NEAR
    result: Array = near & (total > -129) & (total < 128)
    return result


def _misses(scales: list[Quantisation], pairs: list[Array], wanted: Array) -> int:
    """Return how many sums of the engine differ, in the order of `wanted`."""
    tensors = {
        at: Tensor(name="", shape=wanted.shape, dtype="int8", quantisation=scale)
        for at, scale in enumerate(scales)
    }
    attributes = Arithmetic()
    node = Node(op=Op.ADD, inputs=(0, 1), outputs=(2,), attributes=attributes, index=0)
    graph = Graph(name="", inputs=(0, 1), outputs=(2,), tensors=tensors, nodes=(node,))
    try:
        found = add(graph, node, pairs)
    except ValueError as error:
        raise Unsupported(f"has scales that do not fit: {error}") from None
    return int((found.reshape(-1) != wanted).sum())


def _trials(
    scales: list[Quantisation], pairs: list[Array], wanted: Array
) -> Iterator[list[Quantisation]]:
    """Yield quantisations close to the file's, those that match the most sums first."""
    (first,), (second,), (third,) = (each.scale for each in scales)
    zeros = [each.zero_point[0] for each in scales]
    one, two = _exact(scales, pairs)
    steps = 1 + np.arange(-_STEPS, _STEPS + 1) * _STEP
    found = np.floor(
        one * steps[:, np.newaxis, np.newaxis] + two * steps[:, np.newaxis] + zeros[2] + 0.5
    )
    misses = (np.clip(found, -128, 127) != wanted).sum(axis=2)
    distance = np.abs(np.subtract.outer(steps, -steps + 2))
    for place in np.lexsort((distance.ravel(), misses.ravel()))[:8]:
        row, column = divmod(int(place), len(steps))
        changed = (first * steps[row], second * steps[column], third)
        yield [
            Quantisation(scale=(scale,), zero_point=(zero,))
            for scale, zero in zip(changed, zeros, strict=True)
        ]
