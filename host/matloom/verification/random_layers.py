"""Draws random one-layer networks, to compare devices with the graph interpreter."""

import random
from typing import Any

import numpy as np

from matloom.arch.config import Config
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
)
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.shapes import window_shape

#: Approximate maximum of multiply-accumulates of a convolution.
_MAX_MACS = 400_000

_OPERATORS = (
    Op.CONV_2D,
    Op.CONV_2D,
    Op.CONV_2D,
    Op.DEPTHWISE_CONV_2D,
    Op.DEPTHWISE_CONV_2D,
    Op.FULLY_CONNECTED,
    Op.ADD,
    Op.AVERAGE_POOL_2D,
    Op.QUANTIZE,
)
#: Element-wise operators of two inputs.
_PAIRS = (Op.ADD, Op.MUL, Op.SQUARED_DIFFERENCE)

#: Operators that need optional hardware, by the member of `Config` that is true if it is built.
_UNITS = {
    "tables": (Op.HARD_SWISH, Op.LOGISTIC),
    "products": (Op.MUL,),
    "has_squares": (Op.SQUARED_DIFFERENCE,),
    "maximum": (Op.MAX_POOL_2D,),
}


class _Draw:
    """Draws random numbers, attributes and tensors from one seed."""

    def __init__(self, seed: str, config: Config):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(self.random.getrandbits(64))
        self.config = config

    def size(self, most: int) -> int:
        """Return a number from 1 to `most`, often small, sometimes close to the array's size."""
        near = self.random.choice((self.config.rows, self.config.columns))
        return min(
            most,
            self.random.choice(
                (
                    self.random.randint(1, 4),
                    self.random.randint(1, most),
                    max(1, near + self.random.randint(-1, 1)),
                )
            ),
        )

    def zero(self) -> int:
        """Return a random zero point."""
        return self.random.choice((0, -128, 127, self.random.randint(-128, 127)))

    def activation(self) -> Activation:
        """Return a random activation function."""
        return self.random.choice(tuple(Activation))

    def four_bits(self) -> bool:
        """Return whether to use 4-bit weights; never if the engine does not support them."""
        return self.config.has_narrow and self.random.random() < 0.7

    def bytes(self, shape: tuple[int, ...]) -> Array:
        """Return random int8 numbers of a shape."""
        return self.numbers.integers(-128, 128, shape).astype(np.int8)

    def scale(self) -> float:
        """Return a random scale from 0.001 to 1, rounded to float32."""
        return float(np.float32(10 ** self.random.uniform(-3, 0)))

    def tensor(self, name: str, shape: tuple[int, ...], scale: float, zero: int) -> Tensor:
        """Return the declaration of an int8 tensor; it has no data."""
        quantisation = Quantisation(scale=(float(np.float32(scale)),), zero_point=(zero,))
        return Tensor(name=name, shape=shape, dtype="int8", quantisation=quantisation)

    def padding(self, kernel: tuple[int, int], dilation: tuple[int, int]) -> Padding:
        """Return no padding, or a random one of up to half of the kernel's reach on each side."""
        if self.random.random() < 0.4:
            return NO_PADDING
        reach = [(taps - 1) * step for taps, step in zip(kernel, dilation, strict=True)]
        top, left = (self.random.randint(0, length // 2) for length in reach)
        bottom, right = (self.random.randint(0, (length + 1) // 2) for length in reach)
        return Padding(top=top, bottom=bottom, left=left, right=right)


def _image(draw: _Draw, kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int]:
    """Return a random height and width, at least as large as the window."""
    least = [(taps - 1) * step + 1 for taps, step in zip(kernel, dilation, strict=True)]
    height, width = (length + draw.size(20) - 1 for length in least)
    return height, width


def _graph(
    op: Op, attributes: Attributes, inputs: list[Tensor], constants: list[Tensor], output: Tensor
) -> Graph:
    """Return the network of one operator with these inputs, constants and output."""
    tensors = dict(enumerate((*inputs, *constants, output)))
    count = len(inputs) + len(constants)
    node = Node(op=op, inputs=tuple(range(count)), outputs=(count,), attributes=attributes, index=0)
    return Graph(
        name=str(op).lower(),
        inputs=tuple(range(len(inputs))),
        outputs=(count,),
        tensors=tensors,
        nodes=(node,),
    )


def _weights_and_bias(
    draw: _Draw, source: Tensor, shape: tuple[int, ...], axis: int, reduction: int
) -> tuple[list[Tensor], float]:
    """Return weights and perhaps a bias, and an output scale that suits the size of the sums."""
    channels = shape[axis]
    by_channel = draw.random.random() < 0.7
    base = draw.scale()
    scales = [
        float(np.float32(base * draw.random.uniform(0.2, 1)))
        for _ in range(channels if by_channel else 1)
    ]
    quantisation = Quantisation(
        scale=tuple(scales),
        zero_point=(0,) * len(scales),
        axis=axis if by_channel else None,
    )
    weights = Tensor(
        name="weights",
        shape=shape,
        dtype="int8",
        quantisation=quantisation,
        data=draw.bytes(shape) >> (4 if draw.four_bits() else 0),
    )
    deviation = 74 * 74 * reduction**0.5
    bias = draw.numbers.integers(-2 * int(deviation), 2 * int(deviation) + 1, channels)
    if draw.random.random() < 0.05:
        bias = draw.numbers.integers(-(2**31), 2**31, channels)
    constants = [weights]
    if draw.random.random() < 0.9:
        constants.append(
            Tensor(name="bias", shape=(channels,), dtype="int32", data=bias.astype(np.int32))
        )
    return constants, source.scale * base * deviation / 64


def _convolution(draw: _Draw, depthwise: bool) -> Graph:
    """Return a random network of one convolution."""
    kernel = (draw.random.randint(1, 5), draw.random.randint(1, 5))
    stride = (draw.random.randint(1, 3), draw.random.randint(1, 3))
    dilation = (1, 1)
    if draw.random.random() < 0.2:
        dilation = (draw.random.randint(1, 3), draw.random.randint(1, 3))
    height, width = _image(draw, kernel, dilation)
    padding = draw.padding(kernel, dilation)
    depth = draw.size(40)
    multiplier = draw.random.choice((1, 1, 1, 2, 3, 8)) if depthwise else 1
    channels = depth * multiplier if depthwise else draw.size(40)
    out_height, out_width = window_shape((height, width), kernel, stride, dilation, padding)
    taps = kernel[0] * kernel[1]
    reduction = taps if depthwise else taps * depth
    while out_height * out_width * channels * reduction > _MAX_MACS and height > kernel[0] * 3:
        height -= height // 4
        out_height, out_width = window_shape((height, width), kernel, stride, dilation, padding)
    images = draw.random.choice((1, 1, 2))
    data = draw.tensor("input", (images, height, width, depth), draw.scale(), draw.zero())
    shape = (1, *kernel, channels) if depthwise else (channels, *kernel, depth)
    constants, scale = _weights_and_bias(draw, data, shape, 3 if depthwise else 0, reduction)
    output = draw.tensor("output", (images, out_height, out_width, channels), scale, draw.zero())
    common: dict[str, Any] = {
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "activation": draw.activation(),
    }
    if depthwise:
        attributes: Conv2D = DepthwiseConv2D(depth_multiplier=multiplier, **common)
        return _graph(Op.DEPTHWISE_CONV_2D, attributes, [data], constants, output)
    return _graph(Op.CONV_2D, Conv2D(**common), [data], constants, output)


def _dense(draw: _Draw) -> Graph:
    """Return a random network of one dense layer."""
    batch, depth, channels = draw.size(20), draw.size(200), draw.size(60)
    data = draw.tensor("input", (batch, depth), draw.scale(), draw.zero())
    constants, scale = _weights_and_bias(draw, data, (channels, depth), 0, depth)
    output = draw.tensor("output", (batch, channels), scale, draw.zero())
    attributes = FullyConnected(activation=draw.activation())
    return _graph(Op.FULLY_CONNECTED, attributes, [data], constants, output)


def _pooling(draw: _Draw, op: Op) -> Graph:
    """Return a random network of one pooling operator."""
    window = (draw.random.randint(1, 5), draw.random.randint(1, 5))
    stride = (draw.random.randint(1, 3), draw.random.randint(1, 3))
    height, width = _image(draw, window, (1, 1))
    padding = draw.padding(window, (1, 1))
    out_height, out_width = window_shape((height, width), window, stride, (1, 1), padding)
    images, depth = draw.random.choice((1, 1, 2)), draw.size(40)
    scale, zero = draw.scale(), draw.zero()
    data = draw.tensor("input", (images, height, width, depth), scale, zero)
    output = draw.tensor("output", (images, out_height, out_width, depth), scale, zero)
    attributes = Pool2D(window=window, stride=stride, padding=padding, activation=draw.activation())
    return _graph(op, attributes, [data], [], output)


def _elementwise(draw: _Draw, op: Op) -> Graph:
    """Return a random network of one element-wise operator."""
    shape = (1, draw.size(12), draw.size(12), draw.size(40))
    scale = draw.scale()
    operands = [
        draw.tensor(name, shape, scale * draw.random.uniform(0.3, 3), draw.zero())
        for name in (("first", "second") if op in _PAIRS else ("input",))
    ]
    output_scale = scale * draw.random.uniform(0.5, 3)
    output = draw.tensor("output", shape, output_scale, draw.zero())
    attributes = Attributes()
    if op is Op.MUL:
        output = draw.tensor("output", shape, 64 * output_scale * operands[1].scale, draw.zero())
    elif op is Op.SQUARED_DIFFERENCE:
        largest = max(operand.scale for operand in operands)
        output = draw.tensor("output", shape, 64 * largest**2, draw.zero())
    elif op is Op.LOGISTIC:
        output = draw.tensor("output", shape, 1 / 256, -128)
    if op in (Op.ADD, Op.MUL):
        attributes = Arithmetic(activation=draw.activation())
    return _graph(op, attributes, operands, [], output)


def random_layer(seed: int, config: Config) -> tuple[Graph, dict[int, Array]]:
    """Return a network of one random operator, and its inputs by tensor number.

    Operator, shapes, attributes, scales and zero points depend on `seed` and the configuration;
    sizes close to the array's are frequent. Compile the network with
    ``CompileOptions(tiling_seed=seed)`` to get random tiles, too.
    """
    draw = _Draw(f"layer {seed} {config.digest}", config)
    units = [op for name, ops in _UNITS.items() if getattr(config, name) for op in ops]
    op = draw.random.choice((*_OPERATORS, *units))
    if op in (Op.CONV_2D, Op.DEPTHWISE_CONV_2D):
        graph = _convolution(draw, op is Op.DEPTHWISE_CONV_2D)
    elif op is Op.FULLY_CONNECTED:
        graph = _dense(draw)
    elif op in (Op.AVERAGE_POOL_2D, Op.MAX_POOL_2D):
        graph = _pooling(draw, op)
    else:
        graph = _elementwise(draw, op)
    inputs = {number: draw.bytes(graph.tensors[number].shape) for number in graph.inputs}
    return graph, inputs
