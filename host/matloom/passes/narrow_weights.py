"""Reduces int8 weights to four bits, with which the engine runs layers twice as fast (i8xi4)."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from matloom.ir.attributes import Conv2D, FullyConnected
from matloom.ir.graph import Graph, Node, Quantisation, Tensor

#: Range of four bits.
_LOW, _HIGH = -8, 7

#: Scales to try for a channel, relative to the scale that clips nothing.
_SHARES = np.linspace(0.35, 1, 66)

#: Iterations that fit a channel's scale to its integers, and the integers to the scale.
_FIT_ITERATIONS = 4

_Numbers = npt.NDArray[np.float64]


def _round_to_four_bits(channels: _Numbers, scales: _Numbers) -> _Numbers:
    """Return the 4-bit integers nearest to ``channels / scales``."""
    nearest: _Numbers = np.clip(np.rint(channels / scales[:, np.newaxis]), _LOW, _HIGH)
    return nearest


def _squared_errors(channels: _Numbers, scales: _Numbers) -> _Numbers:
    """Return the sum of squared rounding errors of each channel, with the channel's scale."""
    rounded = _round_to_four_bits(channels, scales) * scales[:, np.newaxis]
    squares: _Numbers = ((channels - rounded) ** 2).sum(axis=1)
    return squares


def _best_scales(channels: _Numbers) -> _Numbers:
    """Return a scale for each channel that makes its squared rounding error small.

    It is the best of `_SHARES`, then improved. Channels of integers that fit in four bits get 1.
    """
    peaks = np.abs(channels).max(axis=1)
    tried = np.where(peaks > 0, peaks / _HIGH, 1.0) * _SHARES[:, np.newaxis]
    best = np.argmin([_squared_errors(channels, each) for each in tried], axis=0)
    scales: _Numbers = tried[best, np.arange(len(channels))]
    for _fit in range(_FIT_ITERATIONS):
        integers = _round_to_four_bits(channels, scales)
        squares, products = (integers**2).sum(axis=1), (integers * channels).sum(axis=1)
        scales = np.where(products > 0, products / np.maximum(squares, 1), scales)
    exact = (np.rint(channels) == channels) & (channels >= _LOW) & (channels <= _HIGH)
    return np.where(exact.all(axis=1), 1.0, scales)


def _balance_errors(integers: _Numbers, exact: _Numbers) -> None:
    """Change a channel's integers in place so that rounding errors sum to half a step at most.

    Integers change by one, those first whose squared error grows least. If too few can change
    without leaving the range of four bits, a larger error remains.
    """
    errors = integers - exact
    steps = int(np.rint(errors.sum()))
    direction = -np.sign(steps)
    free = np.flatnonzero((integers + direction >= _LOW) & (integers + direction <= _HIGH))
    moved = free[np.argsort(errors[free] * direction, kind="stable")[: abs(steps)]]
    integers[moved] += direction


def nearest_four_bits(channels: _Numbers) -> tuple[npt.NDArray[np.int8], _Numbers]:
    """Round weights to 4-bit integers, -8 to 7; return these and the scale of each channel.

    The scale is chosen for a small squared error of rounding to nearest. Then integers are changed
    by one until the errors of a channel sum to half a step at most, where the range allows: inputs
    after a ReLU have a nonzero mean, and every result would contain that mean times the sum.
    Integers that fit in four bits are unchanged.

    Parameters
    ----------
    channels:
        (channels, weights of each), in any unit.
    """
    # A graph stores scales as float32.
    scales = _best_scales(channels).astype(np.float32).astype(np.float64)
    exact = channels / scales[:, np.newaxis]
    integers = _round_to_four_bits(channels, scales)
    for channel, numbers in zip(integers, exact, strict=True):
        _balance_errors(channel, numbers)
    return integers.astype(np.int8), scales


def _narrow_constant(weights: Tensor) -> tuple[Tensor, _Numbers]:
    """Return weights with a scale per channel, and the ratios of new to old scales."""
    data, old = weights.data, weights.quantisation
    assert data is not None
    assert old is not None
    integers, ratios = nearest_four_bits(data.reshape(len(data), -1).astype(np.float64))
    was = np.broadcast_to(np.array(old.scale, np.float64), len(data))
    scales = (was * ratios).astype(np.float32).astype(np.float64)
    quantisation = Quantisation(scale=tuple(scales.tolist()), zero_point=(0,) * len(data), axis=0)
    narrow = replace(weights, quantisation=quantisation, data=integers.reshape(data.shape))
    return narrow, scales / was


def narrow_weights(graph: Graph, layers: Collection[int]) -> Graph:
    """Return the graph with 4-bit weights, -8 to 7, in the given int8 layers.

    Each output channel has its own scale; its bias is rounded to a multiple of that scale times the
    input's, and the multiplier of its sums follows from it.

    Parameters
    ----------
    layers:
        Outputs of the layers; `choose_modes.is_integer` must hold for each.
    """
    tensors, nodes = dict(graph.tensors), []

    def add(tensor: Tensor) -> int:
        """Add a tensor; return its number."""
        # Other operators may read the same constant.
        number = max(tensors) + 1
        tensors[number] = tensor
        return number

    for node in graph.nodes:
        if node.outputs[0] not in layers:
            nodes.append(node)
            continue
        source, *constants = node.inputs
        weights, ratios = _narrow_constant(graph.tensors[constants[0]])
        inputs = [source, add(weights)]
        for number in constants[1:]:
            bias = graph.tensors[number]
            assert bias.data is not None
            data = np.rint(bias.data.reshape(-1) / ratios).astype(np.int32)
            inputs.append(add(replace(bias, data=data.reshape(bias.shape))))
        nodes.append(replace(node, inputs=tuple(inputs), attributes=_attributes_for_int4(node)))
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _attributes_for_int4(node: Node) -> Conv2D | FullyConnected:
    """Return a layer's attributes with mode i8xi4: weights of 4 bits."""
    attributes = node.attributes
    assert isinstance(attributes, Conv2D | FullyConnected)
    return replace(attributes, mode="i8xi4")
