"""Quantises the weights and the bias of a layer."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from matloom.ir.graph import Array, Graph, Node, Quantisation, Tensor
from matloom.ir.operators import OPERATORS
from matloom.ir.shapes import BIAS
from matloom.quantiser.kinds import BIAS_TYPES
from matloom.quantiser.moments import Moments, as_channels, as_weights, layer_moments
from matloom.quantiser.options import Options
from matloom.quantiser.rounding import Rounded, round_weights

#: Largest magnitude of a bias, which leaves room to add products without overflow, by type of data.
_MOST_BIAS = {"int8": 2.0**30, "int16": 2.0**40}
#: Scales below which multipliers would leave their range.
_LEAST_SCALE = 2.0**-60

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundedLayer:
    """Integer weights of a layer with their scales, and its bias in real numbers."""

    weights: Rounded
    bias: _Numbers


def round_layer(
    graph: Graph,
    node: Node,
    data: Tensor,
    inputs: tuple[Array, Array],
    *,
    bits: int,
    options: Options,
    random: np.random.Generator,
) -> RoundedLayer:
    """Return the weights and the bias of a layer, rounded and corrected.

    Parameters
    ----------
    data:
        The layer's input in the quantised network.
    inputs:
        Real values of the input over all samples, in the float and in the quantised network.
    bits:
        Number of bits of a weight, 8 or 4.
    """
    values = graph.tensors[node.inputs[1]].data
    assert values is not None
    channels = as_channels(node, values).astype(np.float64)
    bias = layer_bias(graph, node, len(channels))
    needed = options.adaptive_rounding or options.correct_bias
    moments = layer_moments(node, values, bias, inputs, random) if needed else None
    rounded = round_weights(
        channels,
        moments,
        bits=bits,
        per_channel=options.weight_scales == "per-channel",
        adaptive=options.adaptive_rounding,
    )
    rounded = _representable(rounded, bias, data)
    if options.correct_bias and moments is not None:
        bias = _corrected_bias(rounded, moments)
    return RoundedLayer(weights=rounded, bias=bias)


def weights_tensor(graph: Graph, node: Node, layer: RoundedLayer) -> Tensor:
    """Return the weights of a layer as a quantised tensor."""
    weights, rounded = graph.tensors[node.inputs[1]], layer.weights
    integers = as_weights(node, rounded.integers.astype(np.int8), weights.shape)
    scales, axis = rounded.scales.tolist(), OPERATORS[node.op].weight_axis
    if len(set(scales)) == 1:
        scales, axis = scales[:1], None
    quantisation = Quantisation(scale=tuple(scales), zero_point=(0,) * len(scales), axis=axis)
    return replace(weights, dtype="int8", quantisation=quantisation, data=integers)


def bias_tensor(graph: Graph, node: Node, data: Tensor, layer: RoundedLayer) -> Tensor:
    """Return the bias of a layer that reads `data`, as a tensor of integers."""
    dtype = BIAS_TYPES[data.dtype]
    integers = np.rint(layer.bias / (data.scale * layer.weights.scales))
    most = _MOST_BIAS[data.dtype] * 1.5
    made = np.clip(integers, -most, most).astype(dtype)
    if len(node.inputs) > BIAS:
        given = graph.tensors[node.inputs[BIAS]]
        return replace(given, dtype=dtype, data=made.reshape(given.shape))
    name = f"{graph.tensors[node.output].name}:bias"
    return Tensor(name=name, shape=made.shape, dtype=dtype, data=made)


def layer_bias(graph: Graph, node: Node, channels: int) -> _Numbers:
    """Return the bias of a float layer; zeros if it has none."""
    if len(node.inputs) <= BIAS:
        return np.zeros(channels)
    data = graph.tensors[node.inputs[BIAS]].data
    assert data is not None
    return data.reshape(-1).astype(np.float64)


def _representable(rounded: Rounded, bias: _Numbers, data: Tensor) -> Rounded:
    """Return the weights with scales large enough to represent the biases.

    Integers are rounded again in channels whose scale grows.
    """
    least = np.maximum(np.abs(bias) / (data.scale * _MOST_BIAS[data.dtype]), _LEAST_SCALE)
    if len(set(rounded.scales.tolist())) == 1:
        least = np.full_like(least, least.max())
    scales = np.where(rounded.scales < least, least, rounded.scales)
    scales = scales.astype(np.float32).astype(np.float64)
    integers = np.rint(rounded.integers * (rounded.scales / scales)[:, np.newaxis])
    return Rounded(integers=integers, scales=scales)


def _corrected_bias(rounded: Rounded, moments: Moments) -> _Numbers:
    """Return biases with which each channel keeps the mean that it has in the float network."""
    weights = rounded.integers * rounded.scales[:, np.newaxis]
    return np.asarray(moments.expected - (weights * moments.mean).sum(axis=1))
