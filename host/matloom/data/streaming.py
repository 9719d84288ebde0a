"""Random networks with state, fed frame by frame, and their building blocks."""

import numpy as np

from matloom.data.growth import Growth
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Axis,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Slice,
)
from matloom.ir.graph import Graph, Op, Quantisation
from matloom.ir.verify import verify


def delay(growth: Growth, source: int, rows: int) -> int:
    """Return a tensor of `rows` rows kept from earlier calls, followed by the rows of `source`.

    A new variable keeps its last `rows` rows for the next call.

    Parameters
    ----------
    source:
        A tensor (1, height, width, channels).
    """
    tensor = growth.tensors[source]
    _one, height, width, channels = tensor.shape
    shape = (1, rows, width, channels)
    before = growth.variable(shape, tensor.dtype, tensor.quantisation)
    (joined,) = growth.operator(Op.CONCATENATION, [before, source], Axis(axis=1))
    kept = Slice(begin=(0, height, 0, 0), size=shape, step=(1, 1, 1, 1), dropped=())
    (after,) = growth.operator(Op.STRIDED_SLICE, [joined], kept)
    growth.assign(before, after)
    return joined


def accumulate(growth: Growth, source: int) -> int:
    """Return the sum of a tensor and of its value in the previous call, kept in a new variable."""
    tensor = growth.tensors[source]
    before = growth.variable(tensor.shape, tensor.dtype, tensor.quantisation)
    (total,) = growth.operator(Op.ADD, [before, source], Arithmetic())
    growth.assign(before, source)
    return total


def streaming_network(
    seed: int, layers: int = 2, *, features: int = 8, channels: int = 12
) -> Graph:
    """Return a wake-word network with random weights: two frames per call, convolved over time.

    Parameters
    ----------
    layers:
        Number of pairs of a depthwise convolution over 3 to 9 frames and a 1x1 convolution, after
        the first convolution.
    features:
        Features per frame.
    channels:
        Number of channels of all layers.
    """
    growth = Growth((seed, layers, features, channels))
    frames = growth.input((1, 2, 1, features), "int8")
    history = delay(growth, frames, 1)
    tensor = _convolution(growth, history, (3, 1), channels)
    for _ in range(layers):
        taps = growth.integer(3, 9)
        history = delay(growth, tensor, taps - 1)
        tensor = _convolution(growth, _depthwise(growth, history, taps), (1, 1), channels)
    history = delay(growth, tensor, 3)
    (flat,) = growth.operator(Op.RESHAPE, [history], shape=(1, 4 * channels))
    weights = _weights(growth, (2, 4 * channels))
    dense = FullyConnected()
    (score,) = growth.operator(Op.FULLY_CONNECTED, [flat, weights], dense)
    graph = growth.graph(f"streaming_{seed}", [frames], [score])
    verify(graph, "streaming network")
    return graph


def _weights(growth: Growth, shape: tuple[int, ...]) -> int:
    """Add random int8 weights with a random scale; return their tensor number."""
    data = growth.random.integers(-127, 128, shape).astype(np.int8)
    return growth.constant(data, Quantisation(scale=(growth.scale(),), zero_point=(0,)))


def _convolution(growth: Growth, source: int, kernel: tuple[int, int], channels: int) -> int:
    """Add a convolution with ReLU; return its output's tensor number."""
    depth = growth.tensors[source].shape[3]
    attributes = Conv2D(activation=Activation.RELU)
    weights = _weights(growth, (channels, *kernel, depth))
    (output,) = growth.operator(Op.CONV_2D, [source, weights], attributes)
    return output


def _depthwise(growth: Growth, source: int, taps: int) -> int:
    """Add a depthwise convolution along the height (time); return its output's tensor number."""
    attributes = DepthwiseConv2D()
    weights = _weights(growth, (1, taps, 1, growth.tensors[source].shape[3]))
    (output,) = growth.operator(Op.DEPTHWISE_CONV_2D, [source, weights], attributes)
    return output
