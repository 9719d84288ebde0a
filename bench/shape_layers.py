"""Single layers of the classes that networks have, for `shapes.py` to measure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matloom.ir import attributes as kinds
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Op, Quantisation

SCALE = Quantisation(scale=(0.05,), zero_point=(-3,))
#: What LOGISTIC makes, by the rules of TensorFlow Lite.
LOGISTIC = Quantisation(scale=(1 / 256,), zero_point=(-128,))

Map = tuple[int, int, int]


class Network(GraphBuilder):
    """Builder of networks with random weights.

    All tensors have the same scale, so that layers can be chained.
    """

    def __init__(self) -> None:
        super().__init__("shapes")
        self.random = np.random.default_rng(0)
        #: The map that the first convolution makes.
        self.first = 0

    def weights(self, *shape: int) -> int:
        """Add a constant of random weights; return its tensor number."""
        scale = Quantisation(scale=(0.002,), zero_point=(0,))
        return self.constant(self.random.integers(-127, 128, shape, np.int8), scale)

    def channels(self, x: int) -> int:
        """Return the number of channels of a tensor."""
        return self.tensors[x].shape[-1]


Layer = Callable[[Network, int], int]


@dataclass(frozen=True)
class Shape:
    """A layer to measure, and the rows, columns and channels of its input (`map`)."""

    name: str
    map: Map
    layer: Layer

    def build(self, copies: int) -> tuple[Network, int]:
        """Build a 1x1 convolution with the layer's input as output, and `copies` layers in a chain.

        Returns the network and the number of the last tensor.
        """
        rows, columns, channels = self.map
        network = Network()
        image = network.input("image", (1, rows, columns, 16), "int8", SCALE)
        network.first = last = convolution(1, 1, channels)(network, image)
        for _ in range(copies):
            last = self.layer(network, last)
        return network, last

    def network(self, copies: int) -> Graph:
        """Return a graph of `copies` layers that outputs one position, to be quickly stored."""
        network, last = self.build(copies)
        return network.graph(first_position(network, last))

    @property
    def output_map(self) -> Map:
        """Rows, columns and channels of the layer's output."""
        network, last = self.build(1)
        rows, columns, channels = network.tensors[last].shape[1:]
        return rows, columns, channels


def same(size: int, kernel: int, stride: int = 1, dilation: int = 1) -> tuple[int, int]:
    """Return the SAME padding of an axis: the elements before and after it."""
    reach = (kernel - 1) * dilation + 1
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def padding(
    network: Network, x: int, kernel: tuple[int, int], stride: int, dilation: int = 1
) -> kinds.Padding:
    """Return the SAME padding of a kernel (rows, columns) on image `x`."""
    _images, rows, columns, _channels = network.tensors[x].shape
    top, bottom = same(rows, kernel[0], stride, dilation)
    left, right = same(columns, kernel[1], stride, dilation)
    return kinds.Padding(top=top, bottom=bottom, left=left, right=right)


def depthwise(rows: int, columns: int, stride: int = 1, dilation: int = 1) -> Layer:
    """Return a depthwise convolution."""

    def layer(network: Network, x: int) -> int:
        """Add the depthwise convolution of tensor `x`; return its output."""
        attributes = kinds.DepthwiseConv2D(
            stride=(stride, stride),
            dilation=(dilation, dilation),
            padding=padding(network, x, (rows, columns), stride, dilation),
        )
        weights = network.weights(1, rows, columns, network.channels(x))
        return network.add(Op.DEPTHWISE_CONV_2D, [x, weights], attributes)

    return layer


def convolution(
    rows: int, columns: int, *outputs: int, stride: int = 1, dilation: int = 1
) -> Layer:
    """Return a chain of convolutions, one for each number of output channels.

    Without numbers, it is one convolution that keeps the number of channels.
    """

    def layer(network: Network, x: int) -> int:
        """Add the convolutions, the first of tensor `x`; return the last output."""
        for channels in outputs or (network.channels(x),):
            attributes = kinds.Conv2D(
                stride=(stride, stride),
                dilation=(dilation, dilation),
                padding=padding(network, x, (rows, columns), stride, dilation),
            )
            weights = network.weights(channels, rows, columns, network.channels(x))
            x = network.add(Op.CONV_2D, [x, weights], attributes)
        return x

    return layer


def transposed_convolution(kernel: int) -> Layer:
    """Return a transposed convolution that doubles the size."""

    def layer(network: Network, x: int) -> int:
        """Add the transposed convolution of tensor `x`; return its output."""
        _images, rows, columns, channels = network.tensors[x].shape
        before, after = same(2 * rows, kernel, 2)
        attributes = kinds.TransposeConv(
            stride=(2, 2),
            padding=kinds.Padding(top=before, bottom=after, left=before, right=after),
            size=(2 * rows, 2 * columns),
        )
        weights = network.weights(channels, kernel, kernel, channels)
        return network.add(Op.TRANSPOSE_CONV, [x, weights], attributes)

    return layer


def dense(outputs: int) -> Layer:
    """Return a dense layer."""

    def layer(network: Network, x: int) -> int:
        """Add the dense layer on tensor `x`; return its output."""
        attributes = kinds.FullyConnected(keep_num_dims=True)
        weights = network.weights(outputs, network.channels(x))
        return network.add(Op.FULLY_CONNECTED, [x, weights], attributes)

    return layer


def pool(op: Op, window: int, stride: int) -> Layer:
    """Return a pooling layer; at stride 1 it keeps the size."""

    def layer(network: Network, x: int) -> int:
        """Add the pool of tensor `x`; return its output."""
        attributes = kinds.Pool2D(
            window=(window, window),
            stride=(stride, stride),
            padding=padding(network, x, (window, window), stride),
        )
        return network.add(op, [x], attributes)

    return layer


def arithmetic(op: Op) -> Layer:
    """Return a layer that combines its input with the output of the first convolution by `op`."""

    def layer(network: Network, x: int) -> int:
        """Add the operator on tensor `x` and the first output; return the result."""
        return network.add(op, [x, network.first], kinds.Arithmetic())

    return layer


def unary(op: Op, attributes: kinds.Attributes | None = None) -> Layer:
    """Return a layer of an operator with one input."""
    return lambda network, x: network.add(op, [x], attributes)


def mean() -> Layer:
    """Return a layer that computes the mean over rows and columns."""
    return unary(Op.MEAN, kinds.Reduce(axes=(1, 2), keep_dims=True))


def upsampling() -> Layer:
    """Return nearest-neighbour resizing by two."""

    def layer(network: Network, x: int) -> int:
        """Add the resizing of tensor `x`; return its output."""
        _images, rows, columns, _channels = network.tensors[x].shape
        attributes = kinds.Resize(
            size=(2 * rows, 2 * columns), align_corners=False, half_pixel_centers=False
        )
        return network.add(Op.RESIZE_NEAREST_NEIGHBOR, [x], attributes)

    return layer


def first_position(network: Network, x: int) -> int:
    """Return the first position of a map."""
    corner = (0, 0, 0, 0)
    attributes = kinds.Slice(begin=corner, size=(1, 1, 1, network.channels(x)), step=(1, 1, 1, 1))
    return network.add(Op.SLICE, [x], attributes)


def squeeze_excite() -> Layer:
    """Return a squeeze-and-excite layer.

    It multiplies each channel by a factor computed from the mean over the map.
    """

    def layer(network: Network, x: int) -> int:
        """Scale the channels of tensor `x` by factors from their means; return the result."""
        factor = mean()(network, x)
        for outputs in (network.channels(x) // 4, network.channels(x)):
            factor = convolution(1, 1, outputs)(network, factor)
        factor = network.add(Op.LOGISTIC, [factor], quantisation=LOGISTIC)
        return network.add(Op.MUL, [x, factor], kinds.Arithmetic())

    return layer


def channel_scaling(op: Op) -> Layer:
    """Return a layer that combines its input by `op` with a constant for each channel."""

    def layer(network: Network, x: int) -> int:
        """Add the operator on tensor `x` and a random constant; return the result."""
        data = network.random.integers(-127, 128, (network.channels(x),), np.int8)
        factor = network.constant(data, SCALE)
        attributes = None if op is Op.PRELU else kinds.Arithmetic()
        return network.add(op, [x, factor], attributes)

    return layer


#: One of each class, the widest and the narrowest maps of networks that people bring among them.
SHAPES = (
    *(
        Shape("depthwise 3x3", size, depthwise(3, 3))
        for size in (
            *((7, 7, 128), (4, 4, 256), (14, 14, 64), (28, 28, 16), (28, 28, 24), (28, 28, 40)),
            *((28, 28, 64), (28, 28, 72), (56, 56, 24)),
            # These do not fit the scratchpad.
            *((28, 28, 256), (56, 56, 128), (112, 112, 32)),
        )
    ),
    Shape("depthwise 3x3, stride 2", (28, 28, 64), depthwise(3, 3, stride=2)),
    Shape("depthwise 3x3, dilation 2", (28, 28, 64), depthwise(3, 3, dilation=2)),
    Shape("depthwise 5x5", (28, 28, 64), depthwise(5, 5)),
    Shape("depthwise 5x5", (14, 14, 240), depthwise(5, 5)),
    Shape("depthwise 5x5, stride 2", (28, 28, 64), depthwise(5, 5, stride=2)),
    Shape("depthwise 7x7", (28, 28, 64), depthwise(7, 7)),
    Shape("depthwise 7x7, stride 2", (28, 28, 64), depthwise(7, 7, stride=2)),
    Shape("depthwise 1x9", (1, 100, 64), depthwise(1, 9)),
    Shape("depthwise 9x1", (100, 1, 64), depthwise(9, 1)),
    *(
        Shape("1x1", size, convolution(1, 1))
        for size in ((14, 14, 64), (14, 14, 24), (14, 14, 40), (14, 14, 72), (7, 7, 160))
    ),
    Shape("1x1", (4, 4, 256), convolution(1, 1)),
    Shape("1x1 to 48 and back", (28, 28, 8), convolution(1, 1, 48, 8)),
    Shape("1x1 to 144 and back", (28, 28, 24), convolution(1, 1, 144, 24)),
    Shape("3x3", (28, 28, 32), convolution(3, 3)),
    Shape("3x3", (28, 28, 8), convolution(3, 3)),
    Shape("3x3, dilation 2", (28, 28, 32), convolution(3, 3, dilation=2)),
    Shape("3x3, stride 2", (28, 28, 32), convolution(3, 3, stride=2)),
    Shape("1x9", (1, 100, 64), convolution(1, 9)),
    Shape("dense", (1, 1, 256), dense(256)),
    Shape("transposed 3x3, stride 2", (14, 14, 32), transposed_convolution(3)),
    Shape("transposed 5x5, stride 2", (14, 14, 32), transposed_convolution(5)),
    Shape("ADD", (14, 14, 64), arithmetic(Op.ADD)),
    Shape("ADD", (28, 28, 32), arithmetic(Op.ADD)),
    Shape("MUL", (14, 14, 64), arithmetic(Op.MUL)),
    Shape("MAXIMUM", (28, 28, 32), lambda network, x: network.add(Op.MAXIMUM, [x, network.first])),
    Shape("MUL by channel", (28, 28, 32), channel_scaling(Op.MUL)),
    Shape("PRELU", (28, 28, 32), channel_scaling(Op.PRELU)),
    Shape("AVERAGE_POOL 3x3", (28, 28, 32), pool(Op.AVERAGE_POOL_2D, 3, 1)),
    Shape("MAX_POOL 3x3", (28, 28, 32), pool(Op.MAX_POOL_2D, 3, 1)),
    Shape("MAX_POOL 2x2, stride 2", (28, 28, 32), pool(Op.MAX_POOL_2D, 2, 2)),
    Shape("MEAN", (28, 28, 32), mean()),
    Shape("RESIZE_NEAREST by 2", (14, 14, 32), upsampling()),
    Shape("squeeze and excite", (14, 14, 64), squeeze_excite()),
)
