"""A small float network with the operators of keyword spotting and image classification."""

import numpy as np

from matloom import frontend
from matloom.ir.attributes import (
    NO_PADDING,
    Activation,
    Arithmetic,
    Attributes,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Padding,
    Pool2D,
    Softmax,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Array, Graph, Op
from matloom.quantiser import QuantisedNetwork
from support.oracles import litert

__all__ = ["FloatNetwork", "float_network", "float_samples", "litert_agreement"]

_SAME = Padding(top=1, bottom=1, left=1, right=1)


class FloatNetwork(GraphBuilder):
    """A builder of layers with random weights."""

    def __init__(self, name: str = "small", seed: int = 0) -> None:
        super().__init__(name)
        self.random = np.random.default_rng(seed)

    def weights(self, *shape: int, scale: float = 1.0) -> int:
        """Add weights whose axes `shape[1:]` are summed, or a bias."""
        spread = scale * (2 / max(int(np.prod(shape[1:])), 1)) ** 0.5
        return self.constant(self.random.normal(0, spread, shape).astype(np.float32))

    def convolution(
        self,
        source: int,
        channels: int,
        kernel: int = 1,
        activation: Activation = Activation.RELU,
    ) -> int:
        """Add a CONV_2D of stride 1."""
        depth = self.tensors[source].shape[-1]
        attributes = Conv2D(padding=_SAME if kernel > 1 else NO_PADDING, activation=activation)
        weights = self.weights(channels, kernel, kernel, depth)
        bias = self.constant(self.random.normal(0, 0.1, channels).astype(np.float32))
        return self.add(Op.CONV_2D, [source, weights, bias], attributes)

    def depthwise(self, source: int) -> int:
        """Add a DEPTHWISE_CONV_2D of 3x3."""
        channels = self.tensors[source].shape[-1]
        attributes = DepthwiseConv2D(padding=_SAME, activation=Activation.RELU)
        weights = self.constant(self.random.normal(0, 0.5, (1, 3, 3, channels)).astype(np.float32))
        bias = self.constant(self.random.normal(0, 0.1, channels).astype(np.float32))
        return self.add(Op.DEPTHWISE_CONV_2D, [source, weights, bias], attributes)

    def classes(self, source: int, count: int) -> int:
        """Add an average over the image, a dense layer and a SOFTMAX."""
        _, height, width, channels = self.tensors[source].shape
        pool = Pool2D(window=(height, width))
        average = self.add(Op.AVERAGE_POOL_2D, [source], pool)
        flat = self.add(Op.RESHAPE, [average], Attributes(), shape=(1, channels))
        dense = FullyConnected()
        weights = self.weights(count, channels, scale=3.0)
        logits = self.add(Op.FULLY_CONNECTED, [flat, weights], dense)
        return self.add(Op.SOFTMAX, [logits], Softmax(beta=1.0))


def float_network(seed: int = 0) -> Graph:
    """Return a network of an image (1, 8, 8, 3): a residual block with a depthwise layer."""
    network = FloatNetwork(seed=seed)
    image = network.input("image", (1, 8, 8, 3), "float32")
    first = network.convolution(image, 8, kernel=3)
    inside = network.depthwise(first)
    last = network.convolution(inside, 8, activation=Activation.NONE)
    total = network.add(Op.ADD, [first, last], Arithmetic())
    return network.graph(network.classes(network.add(Op.RELU, [total]), 5))


def float_samples(count: int, seed: int = 1) -> Array:
    """Return images for `float_network`, (count, 1, 8, 8, 3)."""
    return np.random.default_rng(seed).normal(0.3, 1, (count, 1, 8, 8, 3)).astype(np.float32)


def litert_agreement(network: Graph, made: QuantisedNetwork, images: Array) -> float:
    """Return the share of images on which LiteRT finds the same class with both networks."""
    content, tensor = frontend.write(network)[1], made.graph.tensors[made.graph.inputs[0]]
    integers = np.clip(np.rint(images / tensor.scale) + tensor.zero_point, -128, 127)
    same = [
        litert(content, [image])[0].argmax()
        == litert(made.content, [each.astype(np.int8)])[0].argmax()
        for image, each in zip(images, integers, strict=True)
    ]
    return float(np.mean(same))
