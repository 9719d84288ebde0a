"""Stores uint8 elements as int8, 128 less, so that the engine can run networks of uint8.

Scales stay as they are, and zero points are 128 less, so both bytes mean the same number. Weights
stay uint8: minus their zero point they may need nine bits.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from matloom.arch.numerics import quantize_multiplier
from matloom.ir.attributes import (
    NO_PADDING,
    DepthwiseConv2D,
    Lookup,
    Pad,
    Pool2D,
)
from matloom.ir.graph import Array, FileCopy, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.scales import channel_multipliers
from matloom.kernels.kernels import kernel_of
from matloom.passes.drop_unused import drop_unused_tensors

_OFFSET = 128

#: Operators whose kernels give bytes that are 128 less if the bytes that they read are.
ALIKE = frozenset(
    {
        *(Op.ADD, Op.ARG_MAX, Op.ARG_MIN, Op.CONCATENATION, Op.DEQUANTIZE, Op.EXPAND_DIMS),
        *(Op.LEAKY_RELU, Op.MAXIMUM, Op.MAX_POOL_2D, Op.MEAN, Op.MINIMUM, Op.MUL, Op.PACK, Op.PAD),
        *(Op.PRELU, Op.QUANTIZE, Op.RELU, Op.RELU6, Op.RESHAPE, Op.RESIZE_NEAREST_NEIGHBOR),
        *(Op.SLICE, Op.SPLIT, Op.SPLIT_V, Op.SQUEEZE, Op.STRIDED_SLICE, Op.SUB, Op.SUM),
        *(Op.TRANSPOSE, Op.UNPACK),
    }
)
#: Layers that multiply by weights of uint8.
_LAYERS = frozenset({Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED})
#: Functions of a byte, whose kernels for uint8 differ from those for int8.
_FUNCTIONS = frozenset({Op.LOGISTIC, Op.TANH})


def store_signed_bytes(graph: Graph) -> Graph:
    """Return a graph that has layers with int8 instead of uint8 wherever results stay the same.

    A graph without layers is returned unchanged. Inputs and outputs of the network stay uint8, and
    so do operators such as SOFTMAX whose kernels for uint8 compute otherwise; a QUANTIZE converts
    before and after them.
    """
    layers = any(_is_layer(graph, node) for node in graph.nodes)
    return as_signed(graph) if layers else graph


def as_signed(graph: Graph) -> Graph:
    """Return the graph with int8 instead of uint8 wherever results stay the same.

    Unlike `store_signed_bytes`, convert also graphs without layers.
    """
    return _Conversion(graph).result()


def _is_layer(graph: Graph, node: Node) -> bool:
    """Return whether an operator is a layer of uint8 with constant weights."""
    if node.op not in _LAYERS:
        return False
    data, weights, *others = (graph.tensors[number] for number in node.inputs)
    types = {data.dtype, weights.dtype, graph.tensors[node.output].dtype}
    return types == {"uint8"} and all(each.data is not None for each in (weights, *others))


class _Conversion:
    """Conversion of a graph from uint8 to int8.

    `_signed` has the number of the int8 form of each uint8 tensor, by number.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors = dict(graph.tensors)
        self._nodes: list[Node] = []
        self._copies = dict(graph.copies)
        self._signed: dict[int, int] = {}
        #: Tensors of uint8 that operators made as int8 only, so far.
        self._missing: set[int] = set()

    def result(self) -> Graph:
        """Return the graph with int8 instead of uint8."""
        for node in self._graph.nodes:
            converted = self._convert(node)
            if converted is None:
                self._convert_back(node.inputs, node)
                self._nodes.append(node)
            else:
                self._nodes.append(converted)
        for number in self._graph.leaving:
            self._convert_back([number], self._graph.nodes[-1])
        nodes = tuple(self._nodes)
        return drop_unused_tensors(
            replace(self._graph, tensors=self._tensors, nodes=nodes, copies=self._copies)
        )

    def _convert(self, node: Node) -> Node | None:
        """Return an operator on int8 with the same results; None if there is none."""
        tensors = [self._graph.tensors[number] for number in (*node.inputs, *node.outputs)]
        types = {tensor.dtype for tensor in tensors}
        scaled = all(tensor.quantisation for tensor in tensors if tensor.dtype == "uint8")
        if "uint8" not in types or "int8" in types or not scaled:
            return None
        if _is_layer(self._graph, node):
            return self._convert_layer(node)
        if node.op is Op.AVERAGE_POOL_2D:
            return self._convert_average(node)
        if node.op in _FUNCTIONS:
            return self._convert_function(node)
        return self._on_signed_bytes(node) if node.op in ALIKE else None

    def _on_signed_bytes(self, node: Node) -> Node:
        """Return the same operator on int8 tensors; a PAD's value is shifted like them."""
        attributes = node.attributes
        if isinstance(attributes, Pad) and attributes.value is not None:
            attributes = replace(attributes, value=attributes.value - _OFFSET)
        inputs = tuple(self._input_form(number, node) for number in node.inputs)
        outputs = tuple(self._output_form(number) for number in node.outputs)
        return replace(node, inputs=inputs, outputs=outputs, attributes=attributes)

    def _convert_layer(self, node: Node) -> Node:
        """Return a layer on int8 with the same results as a layer on uint8.

        A dense one rounds once, as LiteRT's kernel for uint8 does, so it has explicit multipliers.
        """
        constants = list(node.inputs[1:])
        if node.op is Op.FULLY_CONNECTED:
            multipliers, shifts = channel_multipliers(self._graph, node)
            if len(constants) == 1:
                constants.append(self._add_constant(np.zeros(len(shifts), np.int32), node))
            constants.append(self._add_constant(np.array([multipliers, shifts], np.int32), node))
        inputs = (self._input_form(node.inputs[0], node), *constants)
        return replace(node, inputs=inputs, outputs=(self._output_form(node.output),))

    def _convert_average(self, node: Node) -> Node | None:
        """Return an operator on int8 with the same averages as an AVERAGE_POOL_2D on uint8.

        Kernels of uint8 round halves up, and those of int8 away from zero. Sums of an odd number of
        elements meet no halves. Return None if windows differ in their number of elements.
        """
        attributes = node.attributes_as(Pool2D)
        if attributes.padding != NO_PADDING:
            return None
        height, width = attributes.window
        odd = height * width % 2
        return (
            self._on_signed_bytes(node) if odd else self._convert_average_by_layer(node, attributes)
        )

    def _convert_average_by_layer(self, node: Node, attributes: Pool2D) -> Node:
        """Return a layer that averages an even number of elements, without rounding any halves.

        It adds up all elements twice, and 1.
        """
        (height, width), channels = attributes.window, self._graph.tensors[node.output].shape[-1]
        multiplier, shift = quantize_multiplier(1 / (2 * height * width))
        weights = np.full((1, height, width, channels), 2, np.int8)
        scales = np.repeat([[multiplier], [shift]], channels, axis=1).astype(np.int32)
        inputs = (
            self._input_form(node.inputs[0], node),
            self._add_constant(weights, node, Quantisation(scale=(1.0,), zero_point=(0,))),
            self._add_constant(np.ones(channels, np.int32), node),
            self._add_constant(scales, node),
        )
        layer = DepthwiseConv2D(stride=attributes.stride, activation=attributes.activation)
        outputs = (self._output_form(node.output),)
        return replace(
            node, op=Op.DEPTHWISE_CONV_2D, inputs=inputs, outputs=outputs, attributes=layer
        )

    def _convert_function(self, node: Node) -> Node:
        """Return a LOOKUP with the operator's results for all bytes."""
        every = [np.arange(2 * _OFFSET, dtype=np.uint8)]
        made = kernel_of(node, every)(self._graph, node, every)
        assert isinstance(made, np.ndarray)
        table = Lookup(table=tuple((made.astype(int) - _OFFSET).tolist()))
        inputs = (self._input_form(node.inputs[0], node),)
        outputs = (self._output_form(node.output),)
        return replace(node, op=Op.LOOKUP, inputs=inputs, outputs=outputs, attributes=table)

    def _add_constant(
        self, data: Array, node: Node, quantisation: Quantisation | None = None
    ) -> int:
        """Add a constant that replaces one of an operator; return its number."""
        name = f"{self._graph.tensors[node.output].name} ({len(self._tensors)})"
        return self._add_tensor(Tensor.constant(name, data, quantisation))

    def _add_tensor(self, tensor: Tensor) -> int:
        """Add a tensor; return its number."""
        number = max(self._tensors) + 1
        self._tensors[number] = tensor
        return number

    def _output_form(self, number: int) -> int:
        """Return the number of the int8 form of a tensor that an operator makes."""
        if self._graph.tensors[number].dtype != "uint8":
            return number
        self._missing.add(number)
        made = self._add_form(number)
        tensor = self._graph.tensors[number]
        copy = FileCopy(name=tensor.name, axes=(), offset=0)
        known = self._graph.copies.get(number, copy)
        self._copies[made] = replace(known, offset=(known.offset + _OFFSET) % (2 * _OFFSET))
        return made

    def _input_form(self, number: int, node: Node) -> int:
        """Return the number of the int8 form of a tensor that an operator reads.

        A tensor that exists as uint8 only is converted first.
        """
        tensor = self._graph.tensors[number]
        if tensor.dtype != "uint8":
            return number
        if number not in self._signed:
            form = self._add_form(number)
            if tensor.data is None:
                self._nodes.append(_quantize_node(number, form, node))
        return self._signed[number]

    def _add_form(self, number: int) -> int:
        """Add the int8 form of a uint8 tensor; return its number."""
        tensor = self._graph.tensors[number]
        assert tensor.quantisation is not None
        scales, data = tensor.quantisation.move_zero_point(-_OFFSET), tensor.data
        if data is not None:
            data = (data.astype(np.int16) - _OFFSET).astype(np.int8)
        made = replace(tensor, dtype="int8", quantisation=scales, data=data)
        self._signed[number] = self._add_tensor(made)
        return self._signed[number]

    def _convert_back(self, numbers: Sequence[int], node: Node) -> None:
        """Convert the inputs `numbers` of an operator back to uint8 if they exist as int8 only."""
        for number in dict.fromkeys(numbers):
            if number in self._missing:
                self._missing.remove(number)
                self._nodes.append(_quantize_node(self._signed[number], number, node))


def _quantize_node(source: int, result: int, node: Node) -> Node:
    """Return the QUANTIZE of tensor `source` to tensor `result`, added for the operator `node`."""
    return Node(op=Op.QUANTIZE, inputs=(source,), outputs=(result,), index=node.index)
