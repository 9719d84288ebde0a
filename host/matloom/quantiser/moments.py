"""Second moments of a layer's inputs over the calibration samples, for rounding."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.ir.attributes import Conv2D, DepthwiseConv2D
from matloom.ir.graph import Array, Node, Op
from matloom.kernels.windows import pad, windows

#: Maximum number of positions in all samples; more would hardly change the moments.
_MOST_ROWS = 1 << 16
#: Depth of layers above which moments of halves are not computed, as they would take too much
#: memory.
_MOST_HALVED = 2048
#: Operators whose input can be cut into a window for each output position.
_WINDOWED = (Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED)

_Numbers = npt.NDArray[np.float64]
#: Number of rows, and sums over them, from which moments are computed.
_Sums = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """Moments of a layer with `channels` outputs, each computed from rows of `depth` inputs.

    In depthwise layers, each channel reads its own inputs, so it has its own covariance and mean;
    in other layers, all channels share them.

    Members
    -------
    rows:
        Number of rows of inputs.
    covariance:
        Covariance of the quantised inputs: (1 or channels, depth, depth).
    mean:
        Mean of the quantised inputs: (1 or channels, depth).
    missing:
        Covariance of the quantised inputs with the error of each output that the rounding of inputs
        causes: (channels, depth).
    expected:
        Mean of each output of the float layer before its activation: (channels,).
    halves:
        Moments of both halves of the samples; empty for a single sample or a large `depth`.
    """

    rows: int
    covariance: _Numbers
    mean: _Numbers
    missing: _Numbers
    expected: _Numbers
    halves: "tuple[Moments, ...]" = ()


def as_channels(node: Node, weights: Array) -> Array:
    """Return weights as (channels, depth)."""
    if node.op is Op.DEPTHWISE_CONV_2D:
        return np.ascontiguousarray(weights.reshape(-1, weights.shape[-1]).T)
    return weights.reshape(len(weights), -1)


def as_weights(node: Node, channels: Array, shape: tuple[int, ...]) -> Array:
    """Return weights (channels, depth) in `shape`, that of the node's weights."""
    if node.op is Op.DEPTHWISE_CONV_2D:
        return np.ascontiguousarray(channels.T).reshape(shape)
    return channels.reshape(shape)


def _input_rows(node: Node, weights: Array, image: Array) -> Array:
    """Return the rows of inputs of one sample: (1 or channels, positions, depth)."""
    if node.op is Op.FULLY_CONNECTED:
        return image.reshape(1, -1, weights.shape[1])
    attributes = node.attributes_as(Conv2D if node.op is Op.CONV_2D else DepthwiseConv2D)
    if isinstance(attributes, DepthwiseConv2D):
        image = np.repeat(image, attributes.depth_multiplier, axis=3)
    kernel = (weights.shape[1], weights.shape[2])
    padded = pad(image, attributes.padding, 0)
    found = windows(padded, kernel, attributes.stride, attributes.dilation)
    if node.op is Op.CONV_2D:
        return found.reshape(1, -1, weights[0].size)
    positions = found.reshape(-1, kernel[0] * kernel[1], weights.shape[3])
    return np.moveaxis(positions, 2, 0)


def _row_pairs(
    node: Node, weights: Array, exact: Array, rounded: Array, random: np.random.Generator
) -> Iterator[tuple[Array, Array]]:
    """Yield the rows of exact and of rounded inputs of each sample, float64.

    If there are too many positions, the same random ones are taken from both.
    """
    for before, after in zip(exact, rounded, strict=True):
        rows = [_input_rows(node, weights, image) for image in (before, after)]
        most = max(1, _MOST_ROWS // len(exact))
        if rows[0].shape[1] > most:
            chosen = random.choice(rows[0].shape[1], most, replace=False)
            rows = [each[:, chosen] for each in rows]
        yield rows[0].astype(np.float64), rows[1].astype(np.float64)


def layer_moments(
    node: Node,
    weights: Array,
    bias: Array,
    inputs: tuple[Array, Array],
    random: np.random.Generator,
) -> Moments | None:
    """Return the moments of a layer; None for an operator without windows, such as TRANSPOSE_CONV.

    Parameters
    ----------
    weights, bias:
        Weights and bias of the float layer; the bias has an element for each channel.
    inputs:
        Input of the layer in the float and in the quantised network, as real numbers (samples,
        *shape).
    """
    if node.op not in _WINDOWED:
        return None
    kernel = as_channels(node, weights).astype(np.float64)
    halves: list[_Sums] = [(0,), (0,)]
    for sample, pair in enumerate(_row_pairs(node, weights, *inputs, random)):
        halves[sample % 2] = _add_sums(halves[sample % 2], _row_sums(kernel, *pair))
    whole = _moments_from_sums(_add_sums(*halves), bias)
    if len(inputs[0]) == 1 or kernel.shape[1] > _MOST_HALVED:
        return whole
    return replace(whole, halves=tuple(_moments_from_sums(half, bias) for half in halves))


def _row_sums(kernel: _Numbers, exact: _Numbers, rounded: _Numbers) -> _Sums:
    """Return sums over rows (1 or channels, positions, depth), from which moments are computed."""
    # (1 or channels, positions, channels or 1)
    wanted = exact @ _group_weights(kernel, len(exact))
    lost = wanted - rounded @ _group_weights(kernel, len(rounded))
    transposed = np.swapaxes(rounded, 1, 2)
    return (
        exact.shape[1],
        transposed @ rounded,
        rounded.sum(axis=1),
        _merge_groups(transposed @ lost),
        wanted.sum(axis=1).reshape(-1),
        lost.sum(axis=1).reshape(-1),
    )


def _add_sums(first: _Sums, second: _Sums) -> _Sums:
    """Return the sums over both sets of rows; one set may be empty, ``(0,)``."""
    return tuple(sum(pair) for pair in zip_longest(first, second, fillvalue=0))


def _moments_from_sums(sums: _Sums, bias: Array) -> Moments:
    """Return the moments for sums over rows, and the bias of the layer."""
    count, squares, rows, cross, expected, given = sums
    mean = rows / count
    return Moments(
        rows=count,
        covariance=squares / count - mean[:, :, np.newaxis] * mean[:, np.newaxis, :],
        mean=mean,
        missing=cross / count - mean * (given / count)[:, np.newaxis],
        expected=expected / count + bias,
    )


def _group_weights(kernel: _Numbers, groups: int) -> _Numbers:
    """Return weights by which rows are multiplied: (1, depth, channels) or (channels, depth, 1)."""
    return kernel.T[np.newaxis] if groups == 1 and len(kernel) != 1 else kernel[:, :, np.newaxis]


def _merge_groups(products: _Numbers) -> _Numbers:
    """Return products with `_group_weights`, of either shape, in the shape (channels, depth)."""
    if len(products) == 1:
        return np.asarray(products[0].T)
    return np.asarray(products[:, :, 0])
