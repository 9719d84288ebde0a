"""Every kernel beside TensorFlow Lite Micro's, on random layers."""

import numpy as np
import pytest

from matloom.compare import compare, random_inputs
from matloom.frontend.write import write_tflite
from matloom.hostops.interpreter import interpret
from matloom.ir.attributes import (
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
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.operators import OPERATORS
from matloom.ir.shapes import same_padding
from matloom.ir.text import to_text
from matloom.ir.verify import verify

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")

VALID = Padding(top=0, bottom=0, left=0, right=0)
LAYERS = 100


class Layers:
    """Random networks of one operator."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def integer(self, low, high):
        return int(self.random.integers(low, high, endpoint=True))

    def pair(self, low, high):
        return self.integer(low, high), self.integer(low, high)

    def scale(self, low=0.002, high=0.2):
        return float(np.float32(np.exp(self.random.uniform(np.log(low), np.log(high)))))

    def activation(self):
        return self.random.choice(list(Activation))

    def quantised(self, shape, name="", scale=None):
        quantisation = Quantisation(
            scale=(scale or self.scale(),), zero_point=(self.integer(-128, 127),)
        )
        return Tensor(name=name, shape=shape, dtype="int8", quantisation=quantisation)

    def floating(self, shape, name=""):
        return Tensor(name=name, shape=shape, dtype="float32")

    def weights(self, shape, axis):
        many = shape[axis] > 1 and self.integer(0, 1)
        count = shape[axis] if many else 1
        quantisation = Quantisation(
            scale=tuple(self.scale() for _ in range(count)),
            zero_point=(0,) * count,
            axis=axis if many else None,
        )
        data = self.random.integers(-128, 127, shape, np.int8, endpoint=True)
        return Tensor(
            name="weights", shape=shape, dtype="int8", quantisation=quantisation, data=data
        )

    def bias(self, channels):
        if not self.integer(0, 3):
            return []
        reach = 2 ** self.integer(4, 24)
        data = self.random.integers(-reach, reach, channels, np.int32)
        return [Tensor(name="bias", shape=(channels,), dtype="int32", data=data)]

    def network(self, op, inputs, output, attributes=None):
        """The output's shape is the rule's, so that the rule is tested too."""
        attributes = Attributes() if attributes is None else attributes
        rule = OPERATORS[op].shape
        shape = rule([tensor.shape for tensor in inputs], attributes)
        tensors = dict(enumerate([*inputs, output(shape, "output")]))
        graph = Graph(
            name=op.lower(),
            inputs=tuple(at for at, tensor in enumerate(inputs) if tensor.data is None),
            outputs=(len(inputs),),
            tensors=tensors,
            nodes=(
                Node(
                    op=op,
                    inputs=tuple(range(len(inputs))),
                    outputs=(len(inputs),),
                    attributes=attributes,
                    index=0,
                ),
            ),
        )
        verify(graph, "test")
        return graph

    def result(self, shape, name):
        """An output whose scale suits sums of products."""
        return self.quantised(shape, name, scale=self.scale(0.05, 20))

    def window(self, image, kernel, stride, dilation):
        if self.integer(0, 1):
            return same_padding(image, kernel, stride, dilation)
        return VALID

    def convolution(self):
        kernel, stride, dilation = self.pair(1, 5), self.pair(1, 3), self.pair(1, 2)
        image = tuple(
            (k - 1) * d + self.integer(1, 7) for k, d in zip(kernel, dilation, strict=True)
        )
        channels, outputs = self.pair(1, 12)
        return self.network(
            Op.CONV_2D,
            [
                self.quantised((self.integer(1, 2), *image, channels), "input"),
                self.weights((outputs, *kernel, channels), 0),
                *self.bias(outputs),
            ],
            self.result,
            Conv2D(
                stride=stride,
                dilation=dilation,
                padding=self.window(image, kernel, stride, dilation),
                activation=self.activation(),
            ),
        )

    def depthwise(self):
        kernel, stride = self.pair(1, 5), (self.integer(1, 3),) * 2
        image = tuple(k + self.integer(0, 6) for k in kernel)
        channels, multiplier = self.integer(1, 9), self.integer(1, 4)
        return self.network(
            Op.DEPTHWISE_CONV_2D,
            [
                self.quantised((1, *image, channels), "input"),
                self.weights((1, *kernel, channels * multiplier), 3),
                *self.bias(channels * multiplier),
            ],
            self.result,
            DepthwiseConv2D(
                stride=stride,
                dilation=(1, 1),
                padding=self.window(image, kernel, stride, (1, 1)),
                activation=self.activation(),
                depth_multiplier=multiplier,
            ),
        )

    def dense(self):
        units, depth = self.integer(1, 20), self.integer(1, 60)
        keep = bool(self.integer(0, 1))
        leading = self.pair(1, 3) if keep else (self.integer(1, 3),)
        return self.network(
            Op.FULLY_CONNECTED,
            [
                self.quantised((*leading, depth), "input"),
                self.weights((units, depth), 0),
                *self.bias(units),
            ],
            self.result,
            FullyConnected(keep_num_dims=keep, activation=self.activation()),
        )

    def addition(self):
        shape = (1, *self.pair(1, 6), self.integer(1, 9))
        other = (1, 1, 1, shape[3]) if self.integer(0, 2) == 0 else shape
        return self.network(
            Op.ADD,
            [self.quantised(shape, "left"), self.quantised(other, "right")],
            self.quantised,
            Arithmetic(activation=self.activation()),
        )

    def pooling(self, op):
        window, stride = self.pair(1, 6), self.pair(1, 3)
        image = tuple(length + self.integer(0, 6) for length in window)
        given = self.quantised((1, *image, self.integer(1, 9)), "input")
        return self.network(
            op,
            [given],
            lambda shape, name: Tensor(
                name=name, shape=shape, dtype="int8", quantisation=given.quantisation
            ),
            Pool2D(
                window=window,
                stride=stride,
                padding=self.window(image, window, stride, (1, 1)),
                activation=self.activation(),
            ),
        )

    def average_pool(self):
        return self.pooling(Op.AVERAGE_POOL_2D)

    def max_pool(self):
        return self.pooling(Op.MAX_POOL_2D)

    def softmax(self):
        quantisation = Quantisation(scale=(1 / 256,), zero_point=(-128,))
        return self.network(
            Op.SOFTMAX,
            [self.quantised((self.integer(1, 4), self.integer(1, 40)), "input")],
            lambda shape, name: Tensor(
                name=name, shape=shape, dtype="int8", quantisation=quantisation
            ),
            Softmax(beta=float(self.random.choice([1.0, 0.5, 2.0]))),
        )

    def float_softmax(self):
        shape = (self.integer(1, 4), self.integer(1, 20))
        given = [self.floating(shape, "input")]
        return self.network(Op.SOFTMAX, given, self.floating, Softmax(beta=1.0))

    def log_softmax(self):
        shape = (self.integer(1, 4), self.integer(1, 20))
        return self.network(Op.LOG_SOFTMAX, [self.floating(shape, "input")], self.floating)

    def quantize(self):
        return self.network(Op.QUANTIZE, [self.floating((3, 50), "input")], self.quantised)

    def requantize(self):
        return self.network(Op.QUANTIZE, [self.quantised((3, 50), "input")], self.quantised)

    def dequantize(self):
        return self.network(Op.DEQUANTIZE, [self.quantised((3, 50), "input")], self.floating)


@pytest.mark.parametrize(
    "kind",
    [
        *("convolution", "depthwise", "dense", "addition", "average_pool", "max_pool"),
        *("softmax", "quantize", "requantize", "dequantize"),
    ],
)
def test_kernel_equals_the_reference(kind, seed):
    layers = Layers([seed, *kind.encode()])
    variety = 0
    for number in range(LAYERS):
        graph = getattr(layers, kind)()
        outcome = compare(write_tflite(graph), seed=seed + number)
        assert outcome.equal, f"layer {number}: {outcome}\n{to_text(graph)}"
        assert outcome.layers[0].elements == graph.tensors[graph.outputs[0]].size
        variety += len(np.unique(interpret(graph, random_inputs(graph, seed))[graph.outputs[0]]))
    # Outputs that all saturate would prove nothing.
    assert variety > 8 * LAYERS


@pytest.mark.parametrize("kind", ["float_softmax", "log_softmax"])
def test_float_kernel_is_near_the_reference(kind, seed):
    """The C library's float32 exponential and logarithm are not always rounded correctly."""
    layers = Layers([seed, *kind.encode()])
    different = elements = 0
    for number in range(LAYERS):
        graph = getattr(layers, kind)()
        outcome = compare(write_tflite(graph), seed=seed + number)
        elements += outcome.layers[0].elements
        different += outcome.layers[0].different
        if outcome.first is not None:
            ulp = np.spacing(np.float32(max(1.0, abs(outcome.first.expected))))
            assert abs(outcome.first.expected - outcome.first.given) <= 2 * ulp
    assert different < elements / 100


def test_quantize_saturates_what_is_not_finite():
    graph = Layers(0).network(
        Op.QUANTIZE,
        [Tensor(name="input", shape=(4,), dtype="float32")],
        lambda shape, name: Tensor(
            name=name,
            shape=shape,
            dtype="int8",
            quantisation=Quantisation(scale=(0.5,), zero_point=(3,)),
        ),
    )
    given = np.array([np.inf, -np.inf, np.nan, 1e30], np.float32)
    assert interpret(graph, {0: given})[1].tolist() == [127, -128, 3, 127]
