"""Changes the number formats of layers to those of a precision: 4-bit or floating point."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from matloom.arch.modes import STORAGE
from matloom.ir.attributes import Conv2D, FullyConnected
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.passes.choose_modes import Precision, choose_modes, is_float
from matloom.passes.narrow_weights import narrow_weights

#: Operators other than layers that can write results in the formats of float32 layers.
_ROUNDING = (Op.ADD, Op.RELU, Op.RELU6)


def dequantise(weights: Tensor) -> Tensor:
    """Return weights dequantised to float32; weights without scales are returned unchanged."""
    quantisation, data = weights.quantisation, weights.data
    if quantisation is None or data is None:
        return weights
    shape = [1] * data.ndim
    if quantisation.axis is not None:
        shape[quantisation.axis] = -1
    scale, zero = (
        np.array(values, np.float64).reshape(shape)
        for values in (quantisation.scale, quantisation.zero_point)
    )
    numbers = ((data.astype(np.float64) - zero) * scale).astype(np.float32)
    return replace(weights, dtype="float32", quantisation=None, data=numbers)


def widen_weights(graph: Graph) -> Graph:
    """Return the graph with int8 weights of float32 layers converted to float32.

    The input of such a layer is then used unrounded, while TensorFlow Lite's kernel would round it
    to 8 bits.
    """
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        if is_float(graph, node):
            tensors[node.inputs[1]] = dequantise(tensors[node.inputs[1]])
    return replace(graph, tensors=tensors)


def lower_precision(graph: Graph, precision: Precision, kept: Collection[int] = ()) -> Graph:
    """Return the graph with layers that multiply in the number formats of a precision.

    Layers of int8 get 4-bit weights (`narrow_weights`). The input of a float32 layer is rounded to
    the format by a QUANTIZE before it, shared by all layers that read it; sums, biases and outputs
    stay fp32. If only such layers of the same mode read the output of a layer, or of an ADD, RELU
    or RELU6, it is written in their format directly.

    Parameters
    ----------
    precision:
        As for `choose_modes`.
    kept:
        Outputs of layers to leave unchanged.
    """
    modes = {at: mode for at, mode in choose_modes(graph, precision).items() if at not in kept}
    floats = {at: mode for at, mode in modes.items() if mode in STORAGE}
    return _lower_floats(narrow_weights(graph, modes.keys() - floats.keys()), floats)


def _lower_floats(graph: Graph, modes: Mapping[int, str]) -> Graph:
    """Return the graph in which float32 layers multiply in `modes`, by the layers' outputs."""
    tensors, nodes = dict(graph.tensors), []
    rounded: dict[tuple[int, str], int] = {}
    for number, mode in _outputs_of_one_mode(graph, modes):
        tensors[number] = replace(tensors[number], dtype=STORAGE[mode])
        rounded[number, mode] = number
    for node in graph.nodes:
        if node.outputs[0] not in modes:
            nodes.append(node)
            continue
        mode, data = modes[node.outputs[0]], node.inputs[0]
        if (data, mode) not in rounded:
            number = max(tensors) + 1
            source = tensors[data]
            tensors[number] = Tensor(
                name=f"{source.name}:{mode}", shape=source.shape, dtype=STORAGE[mode]
            )
            rounded[data, mode] = number
            nodes.append(Node(op=Op.QUANTIZE, inputs=(data,), outputs=(number,), index=node.index))
        tensors[node.inputs[1]] = dequantise(tensors[node.inputs[1]])
        nodes.append(
            replace(
                node,
                inputs=(rounded[data, mode], *node.inputs[1:]),
                attributes=_attributes_with_mode(node, mode),
            )
        )
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _outputs_of_one_mode(graph: Graph, modes: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Yield (tensor number, mode) for tensors that can be written in a mode's format directly.

    They are outputs of layers and of operators in `_ROUNDING`. All readers must be layers of this
    mode. If a layer makes the tensor, it must have the mode, too.
    """
    for node in graph.nodes:
        number = node.outputs[0]
        if number not in modes and (node.op not in _ROUNDING or not _is_float32(graph, node)):
            continue
        wanted = {modes.get(graph.nodes[at].outputs[0]) for at in graph.consumers[number]}
        mode = modes.get(number, next(iter(wanted), None))
        if mode is not None and wanted == {mode} and number not in graph.leaving:
            yield number, mode


def _is_float32(graph: Graph, node: Node) -> bool:
    """Return whether all inputs and outputs of an operator are float32."""
    return all(graph.tensors[at].dtype == "float32" for at in (*node.inputs, *node.outputs))


def _attributes_with_mode(node: Node, mode: str) -> Conv2D | FullyConnected:
    """Return a layer's attributes with another mode (number format of the multipliers)."""
    attributes = node.attributes
    assert isinstance(attributes, Conv2D | FullyConnected)
    return replace(attributes, mode=mode)
