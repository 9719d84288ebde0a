"""MobileNetV2's blocks at any depth and size, with random weights, for scaling tests."""

import itertools

import numpy as np

from matloom.ir.attributes import (
    NO_PADDING,
    Activation,
    Arithmetic,
    Conv2D,
    DepthwiseConv2D,
    Padding,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Op, Quantisation

__all__ = ["mobilenet"]

#: Channels, stride and share of the blocks of each group: Sandler et al., MobileNetV2: Inverted
#: Residuals and Linear Bottlenecks, 2018, table 2, at a third of its width, in multiples of 8.
_GROUPS = ((8, 1, 1), (8, 2, 2), (16, 2, 3), (24, 2, 4), (32, 1, 3), (56, 2, 3), (112, 1, 1))
_STEM, _EXPANSION, _LAYERS = 16, 6, 3

_SAME = Padding(top=1, bottom=1, left=1, right=1)
_QUANTISATION = Quantisation(scale=(0.05,), zero_point=(-3,))


class _Network(GraphBuilder):
    """A network of random weights; its scales match the spread of its sums."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name)
        self.random = np.random.default_rng(0)
        self.image = self.input("image", (1, size, size, 3), "int8", _QUANTISATION)

    def weights(self, shape: tuple[int, ...], reduction: int) -> int:
        """Add weights that preserve the second moment after a RELU."""
        scale = float(np.float32((2 / reduction) ** 0.5 / 74))
        data = self.random.integers(-127, 128, shape, np.int8)
        return self.constant(data, Quantisation(scale=(scale,), zero_point=(0,)))

    def convolution(
        self, source: int, channels: int, *, kernel: int = 1, stride: int = 1, linear: bool = False
    ) -> int:
        depth = self.tensors[source].shape[-1]
        attributes = Conv2D(
            stride=(stride, stride),
            padding=NO_PADDING if kernel == 1 else _SAME,
            activation=Activation.NONE if linear else Activation.RELU6,
        )
        weights = self.weights((channels, kernel, kernel, depth), kernel * kernel * depth)
        return self.add(Op.CONV_2D, [source, weights], attributes)

    def depthwise(self, source: int, stride: int) -> int:
        attributes = DepthwiseConv2D(
            stride=(stride, stride), padding=_SAME, activation=Activation.RELU6
        )
        weights = self.weights((1, 3, 3, self.tensors[source].shape[-1]), 9)
        return self.add(Op.DEPTHWISE_CONV_2D, [source, weights], attributes)

    def block(self, source: int, channels: int, stride: int) -> int:
        """Add an inverted residual: expansion, depthwise, projection, and the skip connection."""
        wide = self.convolution(source, _EXPANSION * self.tensors[source].shape[-1])
        made = self.convolution(self.depthwise(wide, stride), channels, linear=True)
        if self.tensors[made].shape != self.tensors[source].shape:
            return made
        return self.add(Op.ADD, [made, source], Arithmetic())


def mobilenet(layers: int, size: int) -> Graph:
    """Return a network of a stem and inverted residuals, with about `layers` layers.

    Parameters
    ----------
    layers:
        Convolutions: a multiple of three, plus one for the stem; rounded down.
    size:
        Rows and columns of the input, which has three int8 channels.
    """
    blocks, total = max(1, (layers - 1) // _LAYERS), sum(share for _, _, share in _GROUPS)
    ends = itertools.accumulate(share for _, _, share in _GROUPS)
    edges = [0, *(round(blocks * end / total) for end in ends)]
    network = _Network(f"mobilenet_{layers}_{size}", size)
    last = network.convolution(network.image, _STEM, kernel=3, stride=2)
    for (channels, stride, _share), (first, end) in zip(
        _GROUPS, itertools.pairwise(edges), strict=True
    ):
        for number in range(first, end):
            last = network.block(last, channels, stride if number == first else 1)
    return network.graph(last)
