"""Random networks of many operators are right, wherever each part runs."""

from dataclasses import replace

import numpy as np
import pytest

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.device.open import open_device
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Attributes,
    Axis,
    Conv2D,
    LeakyRelu,
    Pad,
    Resize,
    Slice,
    Split,
    Transpose,
)
from matloom.ir.graph import RESHAPES, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.operators import OPERATORS
from matloom.ir.text import to_text
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.program import Program
from matloom.runtime import Session
from matloom.tools.compare import random_inputs

SCALE = Quantisation(scale=(0.25,), zero_point=(-3,))
SHAPES = [(1, 4, 4, 8), (4, 1, 4, 8), (1, 16, 1, 8)]


class Networks:
    """Grows a network, operator by operator."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.tensors, self.nodes = {}, []

    def choose(self, items):
        return items[int(self.random.integers(len(items)))]

    def add(self, shape, data=None):
        number = len(self.tensors)
        self.tensors[number] = Tensor(
            name=f"t{number}", shape=shape, dtype="int8", quantisation=SCALE, data=data
        )
        return number

    def operator(self, op, inputs, attributes=None, shape=None):
        attributes = Attributes() if attributes is None else attributes
        rules, given = OPERATORS[op], [self.tensors[number].shape for number in inputs]
        if rules.output_shapes is not None:
            shapes = rules.output_shapes(given, attributes)
        else:
            shapes = [shape if rules.shape is None else rules.shape(given, attributes)]
        outputs = tuple(self.add(made) for made in shapes)
        node = Node(
            op=op,
            inputs=tuple(inputs),
            outputs=outputs,
            attributes=attributes,
            index=len(self.nodes),
        )
        self.nodes.append(node)
        return outputs

    def grow(self):
        """Add an operator on tensors of 128 elements."""
        whole = [n for n, tensor in self.tensors.items() if tensor.size == 128]
        first = self.choose(whole)
        shape = self.tensors[first].shape
        alike = [number for number in whole if self.tensors[number].shape == shape]
        kind = self.choose(
            [
                *("add", "relu", "reshape", "split", "convolution", "transpose", "sub"),
                *("join", "leaky", "pad", "resize", "swish", "mul", "prelu"),
            ]
        )
        if kind in ("add", "sub", "mul"):
            activation = Arithmetic(activation=self.choose(list(Activation)))
            self.operator(Op(kind.upper()), [first, self.choose(alike)], activation)
        elif kind in ("relu", "swish"):
            self.operator(Op.RELU if kind == "relu" else Op.HARD_SWISH, [first])
        elif kind == "prelu":
            slopes = self.random.integers(-128, 128, shape[3:]).astype(np.int8)
            self.operator(Op.PRELU, [first, self.add(shape[3:], slopes)])
        elif kind == "reshape":
            # An operator of constants alone is none of the format's.
            if self.tensors[first].data is None:
                self.operator(self.choose(sorted(RESHAPES)), [first], shape=self.choose(SHAPES))
        elif kind == "split":
            parts = self.operator(Op.SPLIT, [first], Split(axis=3, sizes=(4, 4)))
            self.operator(Op.CONCATENATION, parts[::-1], Axis(axis=3))
        elif kind == "convolution":
            self.convolution(first, 8)
        elif kind == "join":
            parts = [self.convolution(first, outputs) for outputs in (3, 5)]
            self.operator(Op.CONCATENATION, parts, Axis(axis=3))
        elif kind == "leaky":
            self.operator(Op.LEAKY_RELU, [first], LeakyRelu(alpha=0.3))
        elif kind == "pad":
            edges = Pad(before=(0, 1, 2, 0), after=(0, 0, 1, 0))
            (wide,) = self.operator(Op.PAD, [first], edges)
            self.cut(wide, begin=(0, 1, 2, 0), size=shape)
        elif kind == "resize":
            size = Resize(
                size=(2 * shape[1], 3 * shape[2]), align_corners=False, half_pixel_centers=False
            )
            (wide,) = self.operator(Op.RESIZE_NEAREST_NEIGHBOR, [first], size)
            self.cut(wide, begin=(0, 1, 0, 0), size=shape, step=(1, 2, 3, 1))
        else:
            (columns,) = self.operator(Op.TRANSPOSE, [first], Transpose(permutation=(0, 2, 1, 3)))
            assert self.tensors[columns].size == 128

    def convolution(self, source, outputs):
        data = self.random.integers(-9, 9, (outputs, 1, 1, 8)).astype(np.int8)
        weights = self.add(data.shape, data)
        self.tensors[weights] = Tensor(
            name=f"w{weights}",
            shape=data.shape,
            dtype="int8",
            quantisation=Quantisation(scale=(0.125,), zero_point=(0,)),
            data=data,
        )
        attributes = Conv2D()
        (made,) = self.operator(Op.CONV_2D, [source, weights], attributes)
        return made

    def cut(self, source, begin, size, step=(1, 1, 1, 1)):
        # A step along an axis of one element is none of the format's.
        step = tuple(1 if length == 1 else by for length, by in zip(size, step, strict=True))
        self.operator(Op.STRIDED_SLICE, [source], Slice(begin=begin, size=size, step=step))

    def make(self, operators):
        inputs = tuple(self.add(self.choose(SHAPES)) for _ in range(2))
        constant = self.random.integers(-128, 128, SHAPES[0]).astype(np.int8)
        self.add(SHAPES[0], constant)
        for _ in range(operators):
            self.grow()
        made = [number for node in self.nodes for number in node.outputs]
        outputs = {self.choose(made) for _ in range(3)} | {made[-1]}
        graph = Graph(
            name="random",
            inputs=inputs,
            outputs=tuple(sorted(outputs)),
            tensors=self.tensors,
            nodes=tuple(self.nodes),
        )
        verify(graph, "test")
        return graph


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("units", [0, 1], ids=["bare", "tables and products"])
@pytest.mark.parametrize("part", range(2))
def test_random_networks(part, units, seed):
    config = replace(PRESETS["small"], tables=units, products=units)
    driver = open_device("model", config)
    for number in range(15):
        graph = Networks([seed, part, number]).make(2 + number)
        graph = frontend.load(write_tflite(graph))
        given = random_inputs(graph, seed)
        expected = interpret(graph, given)
        program = Program.from_bytes(compile_network(graph, config).to_bytes())
        session = Session(program, driver, "model")
        named = {graph.tensors[at].name: array for at, array in given.items()}
        results = session.run(named)
        for at, array in expected.items():
            found = results[graph.tensors[at].name]
            assert np.array_equal(found, array), f"network {number}\n{to_text(graph)}"
