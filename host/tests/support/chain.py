"""Graphs in which each convolution reads the one before, and whether their programs are exact."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Self

import numpy as np

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode
from matloom.compiler import CompileOptions, compile_network
from matloom.device.model.transport import ModelTransport
from matloom.device.open import open_device
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Axis,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Pad,
    Padding,
    Pool2D,
)
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.shapes import same_padding
from matloom.kernels.interpreter import interpret
from matloom.program import Program
from matloom.program.verify import verify_program
from matloom.runtime import load
from matloom.verification.random_operators import RandomOperators
from support.instructions import instructions

__all__ = ["Chain", "exact_programs", "executes"]


class Chain:
    """A graph in which each convolution reads the one before."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0):
        self.instances = RandomOperators(seed)
        self.tensors = {0: self.instances._tensor("input", shape)}
        self.nodes: list[Node] = []
        self.last = 0

    def convolve(self, outputs: int, kernel: int = 1, stride: int = 1, *, width: int = 0) -> Self:
        """Add a convolution whose output is the image's size divided by the stride."""
        taps = (kernel, width or kernel)
        padding = same_padding(self._size, taps, (stride, stride))
        attributes = Conv2D(stride=(stride, stride), padding=padding, activation=Activation.RELU)
        weights = self.instances._weights((outputs, *taps, self.shape[3]), 0)
        return self._add(Op.CONV_2D, attributes, weights)

    def dense(self, units: int) -> Self:
        """Add a dense layer of the channels of each position."""
        weights = self.instances._weights((units, self.shape[3]), 0)
        return self._add(Op.FULLY_CONNECTED, FullyConnected(keep_num_dims=True), weights)

    def halve(
        self,
        *,
        stride: tuple[int, int] = (2, 2),
        padding: Padding | None = None,
        taps: tuple[int, int] = (3, 3),
    ) -> Self:
        """Add a depthwise layer, by default with a 3x3 kernel."""
        padding = same_padding(self._size, taps, stride) if padding is None else padding
        attributes = DepthwiseConv2D(stride=stride, padding=padding, activation=Activation.RELU)
        weights = self.instances._weights((1, *taps, self.shape[3]), 3)
        return self._add(Op.DEPTHWISE_CONV_2D, attributes, weights)

    def look_up(self) -> Self:
        """Add HARD_SWISH, which becomes a table of the layer before."""
        data = replace(self.tensors[self.last], name="t0", data=None)
        made = self.instances.network(Op.HARD_SWISH, [data], None).tensors[1]
        number = len(self.tensors)
        self.tensors[number] = replace(made, name=f"tensor_{number}")
        index = len(self.nodes)
        node = Node(op=Op.HARD_SWISH, inputs=(self.last,), outputs=(number,), index=index)
        self.nodes.append(node)
        self.last = number
        return self

    def pool(self) -> Self:
        """Add MAX_POOL_2D of blocks of 2 x 2."""
        images, height, width, channels = self.shape
        number = len(self.tensors)
        self.tensors[number] = replace(
            self.tensors[self.last],
            name=f"tensor_{number}",
            shape=(images, height // 2, width // 2, channels),
        )
        self.nodes.append(
            Node(
                op=Op.MAX_POOL_2D,
                inputs=(self.last,),
                outputs=(number,),
                attributes=Pool2D(window=(2, 2), stride=(2, 2)),
                index=len(self.nodes),
            )
        )
        self.last = number
        return self

    def join(self, other: int) -> Self:
        """Join the last tensor and another one of its scale along their channels."""
        number, scale = len(self.tensors), self.tensors[self.last].quantisation
        self.tensors[other] = replace(self.tensors[other], quantisation=scale)
        channels = self.shape[3] + self.tensors[other].shape[3]
        self.tensors[number] = replace(
            self.tensors[self.last], name=f"tensor_{number}", shape=(*self.shape[:3], channels)
        )
        self.nodes.append(
            Node(
                op=Op.CONCATENATION,
                inputs=(self.last, other),
                outputs=(number,),
                attributes=Axis(axis=3),
                index=len(self.nodes),
            )
        )
        self.last = number
        return self

    def add(
        self, before: int = 2, ratio: float = 1.3, activation: Activation = Activation.NONE
    ) -> Self:
        """Add an earlier tensor to the last one; a PAD gives it channels that it lacks.

        `before` is the number of operators between them; the input comes before the first.
        `ratio` is the scale of the sum divided by the larger scale of the operands.
        """
        zero = -128 if activation is Activation.RELU else 3
        made = (0, *(node.output for node in self.nodes))
        other = self._padded(made[-1 - before])
        number = len(self.tensors)
        larger = max(self.tensors[each].scale for each in (other, self.last))
        quantisation = Quantisation(scale=(ratio * larger,), zero_point=(zero,))
        self.tensors[number] = replace(
            self.tensors[self.last], name=f"tensor_{number}", quantisation=quantisation
        )
        self.nodes.append(
            Node(
                op=Op.ADD,
                inputs=(other, self.last),
                outputs=(number,),
                attributes=Arithmetic(activation=activation),
                index=len(self.nodes),
            )
        )
        self.last = number
        return self

    def _padded(self, source: int) -> int:
        """Return a tensor with as many channels as the last one: this, or what a PAD makes."""
        number, shape = len(self.tensors), self.tensors[source].shape
        more = self.shape[3] - shape[3]
        if not more:
            return source
        attributes = Pad(before=(0,) * 4, after=(0, 0, 0, more))
        self.tensors[number] = replace(
            self.tensors[source], name=f"tensor_{number}", shape=self.shape, data=None
        )
        node = Node(
            op=Op.PAD,
            inputs=(source,),
            outputs=(number,),
            attributes=attributes,
            index=len(self.nodes),
        )
        self.nodes.append(node)
        return number

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the last tensor."""
        return self.tensors[self.last].shape

    @property
    def _size(self) -> tuple[int, int]:
        _images, height, width, _channels = self.shape
        return height, width

    def _add(
        self, op: Op, attributes: Conv2D | DepthwiseConv2D | FullyConnected, weights: Tensor
    ) -> Self:
        bias = self.instances._bias(weights.shape[3 if weights.shape[0] == 1 else 0])
        data = replace(self.tensors[self.last], data=None)
        given = [replace(each, name=f"t{at}") for at, each in enumerate((data, weights, *bias))]
        made = self.instances.network(op, given, attributes).tensors[len(given)]
        first = len(self.tensors)
        for number, tensor in enumerate((weights, *bias, made), first):
            self.tensors[number] = replace(tensor, name=f"tensor_{number}")
        constants = range(first, first + 1 + len(bias))
        node = Node(
            op=op,
            inputs=(self.last, *constants),
            outputs=(constants.stop,),
            attributes=attributes,
            index=len(self.nodes),
        )
        self.nodes.append(node)
        self.last = constants.stop
        return self

    def graph(self, *more: int) -> Graph:
        """Return the graph; its outputs are the last tensor and some others."""
        outputs = (self.last, *more)
        return Graph(
            name="chain",
            inputs=(0,),
            outputs=outputs,
            tensors=self.tensors,
            nodes=tuple(self.nodes),
        )


def executes(program: Program) -> list[Instruction]:
    """Return the EXECs of a program."""
    return instructions(program, Opcode.EXEC)


def exact_programs(graph: Graph, config: Config, seeds: Iterable[int | None]) -> list[Program]:
    """Return a graph's programs in several tilings, each compared with the interpreter.

    Raises
    ------
    AssertionError
        A result differs.
    """
    noise = np.random.default_rng(0)
    source = graph.tensors[0]
    given = noise.integers(-128, 128, source.shape).astype(np.int8).astype(source.dtype)
    expected, programs = interpret(graph, {0: given}), []
    for seed in seeds:
        program = compile_network(graph, config, CompileOptions(tiling_seed=seed))
        verify_program(program)
        device = open_device("model", config)
        assert isinstance(device.transport, ModelTransport)
        # What nobody writes must not matter.
        device.transport.engine.spad[:] = noise.integers(0, 256, config.spad_bytes)
        results = load(program, device).run({graph.tensors[0].name: given})
        results = results if isinstance(results, dict) else {"": results}
        for number, found in zip(graph.outputs, results.values(), strict=True):
            np.testing.assert_array_equal(found, expected[number])
        programs.append(program)
    return programs
