"""Converts normalisations by mean and variance, or by the root mean square, of the data."""

import math
from collections.abc import Sequence

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.values import LAST, Order, in_file_order
from matloom.ir.attributes import Arithmetic, FullyConnected, Function, Reduce
from matloom.ir.graph import Array, Op

_NO_ACTIVATION = Arithmetic()
#: Number of axes of one-dimensional data.
_LINE_RANK = 3
#: Number that ONNX adds to a variance unless the file states another one.
_EPSILON = 1e-5


def _normalise(
    values: FloatValues, number: int, axes: Sequence[int], epsilon: float, *, centre: bool
) -> int:
    """Return the number of a tensor divided by the root of its mean square along some axes.

    If `centre`, its mean is subtracted first, so that the mean square is the variance. `axes` are
    the axes, `epsilon` is added to the mean square.
    """
    attributes = Reduce(axes=tuple(sorted(axes)), keep_dims=True)
    if centre:
        mean = values.add(Op.MEAN, [number], attributes)
        number = values.add(Op.SUB, [number, mean], _NO_ACTIVATION)
    squares = values.add(Op.MUL, [number, number], _NO_ACTIVATION)
    variance = values.add(Op.MEAN, [squares], attributes)
    variance = values.add(Op.ADD, [variance, values.number(epsilon)], _NO_ACTIVATION)
    factor = values.add(Op.FUNCTION, [variance], Function(function="RSQRT"))
    return values.add(Op.MUL, [number, factor], _NO_ACTIVATION)


def _scale_and_shift(
    values: FloatValues, number: int, factors: Array | None, offsets: Array | None
) -> int:
    """Multiply tensor `number` by `factors` and add `offsets`; return the result's number.

    The arrays have the tensor's axes, in its order. None omits the product or the sum.
    """
    for op, data in ((Op.MUL, factors), (Op.ADD, offsets)):
        if data is not None:
            constant = values.builder.constant(np.ascontiguousarray(data, np.float32))
            number = values.add(op, [number, constant], _NO_ACTIVATION)
    return number


def _convert_layer_normalisation(values: FloatValues, node: FileNode) -> None:
    """Convert LayerNormalization and RMSNormalization."""
    if any(node.outputs[1:]):
        raise Unsupported("also returns the mean or the deviation")
    shape = values.shape(node.source)
    axis = int(node.options.get("axis", -1)) % len(shape)
    order = values.order_of([node.source])
    epsilon = float(node.options.get("epsilon", _EPSILON))
    number = _normalise(
        values,
        values.tensor_in_order(node.source, order),
        [order.index(each) for each in range(axis, len(shape))],
        epsilon,
        centre=node.op == "LayerNormalization",
    )
    given = [values.constant(name) if name else None for name in (node.input(1), node.input(2))]
    ranks = [(1,) * (len(shape) - data.ndim) + data.shape for data in given if data is not None]
    sides = iter(ranks)
    placed = [
        None if data is None else data.reshape(next(sides)).transpose(order) for data in given
    ]
    values.hold(node.output, order, _scale_and_shift(values, number, *placed))


def _convert_instance_normalisation(values: FloatValues, node: FileNode) -> None:
    """Convert InstanceNormalization, which normalises each channel of each image.

    Exporters also write the normalisation of groups of channels like this: they reshape the image
    such that the groups become its channels.
    """
    rank, image = len(values.shape(node.source)), values.flattened.get(node.source)
    if image is not None and _has_groups(values.shape(image), values.shape(node.source)):
        _normalise_flattened(values, node, image)
        return
    order = values.order_of([node.source]) if rank != len(LAST) else LAST
    places = [order.index(each) for each in range(2, rank)]
    epsilon = float(node.options.get("epsilon", _EPSILON))
    number = values.tensor_in_order(node.source, order)
    number = _normalise(values, number, places, epsilon, centre=True)
    shape = [1] * rank
    shape[order.index(1)] = -1
    factors, offsets = (values.constant(name).reshape(shape) for name in node.inputs[1:3])
    values.hold(node.output, order, _scale_and_shift(values, number, factors, offsets))


def _has_groups(image: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether a value's channels are groups of the channels of an image.

    `image` is the shape of the image, and `shape` the shape to which it was flattened.
    """
    return len(shape) == _LINE_RANK and shape[0] == image[0] and image[1] % shape[1] == 0


def _normalise_flattened(values: FloatValues, node: FileNode, image: str) -> None:
    """Convert InstanceNormalization whose channels are groups of the channels of `image`."""
    shape, epsilon = values.shape(node.source), float(node.options.get("epsilon", _EPSILON))
    number = _normalise_groups(values, values.channels_last(image), shape[1], epsilon)
    name = f"{node.output}/image"
    values.hold(name, LAST, number)
    number = values.add(Op.RESHAPE, [values.in_file_order(name)], shape=shape)
    numbers = (values.constant(each).reshape(-1, 1) for each in node.inputs[1:3])
    factors, offsets = (
        None if (each == default).all() else each
        for each, default in zip(numbers, (1, 0), strict=True)
    )
    values.hold(
        node.output, in_file_order(_LINE_RANK), _scale_and_shift(values, number, factors, offsets)
    )
    if factors is None and offsets is None:
        values.flattened[node.output] = name


def _convert_group_normalisation(values: FloatValues, node: FileNode) -> None:
    """Convert GroupNormalization, which normalises groups of channels of each image."""
    shape, groups = values.shape(node.source), int(node.options["num_groups"])
    epsilon = float(node.options.get("epsilon", _EPSILON))
    if len(shape) == len(LAST):
        order: Order = LAST
        number = _normalise_groups(values, values.channels_last(node.source), groups, epsilon)
    else:
        order = in_file_order(len(shape))
        grouped = shape[0], groups, math.prod(shape[1:]) // groups
        number = values.add(Op.RESHAPE, [values.in_file_order(node.source)], shape=grouped)
        number = _normalise(values, number, [2], epsilon, centre=True)
        number = values.add(Op.RESHAPE, [number], shape=shape)
    # The first version of the operator has numbers for each group.
    numbers = (values.constant(name) for name in node.inputs[1:3])
    channels = (np.repeat(each, shape[1] // each.size) for each in numbers)
    places = [1] * len(shape)
    places[order.index(1)] = -1
    factors, offsets = (each.reshape(places) for each in channels)
    values.hold(node.output, order, _scale_and_shift(values, number, factors, offsets))


def _normalise_groups(values: FloatValues, number: int, groups: int, epsilon: float) -> int:
    """Return the tensor number of an image whose groups of channels are normalised.

    The image has channels last. A dense layer averages the means of the channels of each group.
    """
    channels = values.builder.tensors[number].shape[-1]
    same = np.kron(np.eye(groups), np.ones((channels // groups,) * 2))
    average = (same * groups / channels).astype(np.float32)
    negative = _group_means(values, number, -average)
    number = values.add(Op.ADD, [number, negative], _NO_ACTIVATION)
    squares = values.add(Op.MUL, [number, number], _NO_ACTIVATION)
    variance = _group_means(values, squares, average)
    variance = values.add(Op.ADD, [variance, values.number(epsilon)], _NO_ACTIVATION)
    factor = values.add(Op.FUNCTION, [variance], Function(function="RSQRT"))
    return values.add(Op.MUL, [number, factor], _NO_ACTIVATION)


def _group_means(values: FloatValues, number: int, weights: Array) -> int:
    """Return the tensor number of the means of channels over all positions, multiplied by a matrix.

    `weights` (channels, channels) is the matrix.
    """
    means = values.add(Op.MEAN, [number], Reduce(axes=(1, 2), keep_dims=True))
    operands = [means, values.builder.constant(weights)]
    return values.add(Op.FULLY_CONNECTED, operands, FullyConnected(keep_num_dims=True))


#: Converters by operator name.
NORMALISATIONS = {
    "GroupNormalization": _convert_group_normalisation,
    "InstanceNormalization": _convert_instance_normalisation,
    "LayerNormalization": _convert_layer_normalisation,
    "RMSNormalization": _convert_layer_normalisation,
}
