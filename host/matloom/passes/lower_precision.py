"""Give layers of a float32 network the products of another floating-point format."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from matloom.arch.config import FLOAT_MODES
from matloom.ir.attributes import Conv2D, FullyConnected
from matloom.ir.graph import Graph, Node, Op, Tensor

__all__ = ["CARRIERS", "LOWERED", "lower_precision", "widen_weights"]

#: The NumPy types of the elements of a mode; those of bf16 are patterns, the upper half of fp32.
CARRIERS = {"bf16": "uint16", "fp16": "float16"}

#: Operators whose products may have another format.
LOWERED = (Op.CONV_2D, Op.FULLY_CONNECTED)


def _is_float(graph: Graph, node: Node) -> bool:
    """Return whether a layer is of float32; its weights may be integers that stand for numbers."""
    given, weights, *bias = (graph.tensors[number] for number in node.inputs)
    types = {given.dtype, *(tensor.dtype for tensor in bias)}
    constant = all(tensor.data is not None for tensor in (weights, *bias))
    return types == {"float32"} and weights.dtype in ("float32", "int8") and constant


def _numbers(weights: Tensor) -> Tensor:
    """Return weights as float32."""
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
    """Return the graph with int8 weights of float32 layers as the numbers they stand for.

    The input of such a layer is then used as it is, where TensorFlow Lite's kernel would round it
    to 8 bits.
    """
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        if node.op in LOWERED and _is_float(graph, node):
            tensors[node.inputs[1]] = _numbers(tensors[node.inputs[1]])
    return replace(graph, tensors=tensors)


def _modes(graph: Graph, precision: str | Mapping[str, str]) -> dict[int, str]:
    """Return the mode of each layer by the number of its output."""
    layers = {
        node.output: graph.tensors[node.output].name
        for node in graph.nodes
        if node.op in LOWERED and _is_float(graph, node)
    }
    if isinstance(precision, str):
        found = dict.fromkeys(layers, precision)
    else:
        for name in precision:
            if name not in layers.values():
                raise ValueError(
                    f"precision must name convolutions and dense layers of float32, not {name!r}"
                )
        found = {at: precision[name] for at, name in layers.items() if name in precision}
    for mode in found.values():
        if mode not in CARRIERS:
            raise ValueError(f"a precision must be one of {', '.join(CARRIERS)}, not {mode!r}")
    assert set(CARRIERS) <= set(FLOAT_MODES)
    return found


def lower_precision(
    graph: Graph, precision: str | Mapping[str, str], but: Collection[int] = ()
) -> Graph:
    """Return the graph with input, weights and products of layers in a narrower format.

    Each such layer's input is rounded to the format by a QUANTIZE before it, once for all layers
    that read it; sums, biases and outputs stay fp32. Where nothing but such layers of the same
    mode read an output, it is made in their format at once.

    Parameters
    ----------
    precision:
        A mode for all convolutions and dense layers of float32, or for some by the name of their
        output: ``bf16`` or ``fp16``.
    but:
        Outputs of layers that stay as they are.
    """
    modes = {at: mode for at, mode in _modes(graph, precision).items() if at not in but}
    tensors, nodes = dict(graph.tensors), []
    rounded: dict[tuple[int, str], int] = {}
    for number, mode in modes.items():
        readers = [graph.nodes[at] for at in graph.consumers[number]]
        plain = number not in graph.outputs and readers
        if plain and all(modes.get(each.outputs[0]) == mode for each in readers):
            tensors[number] = replace(tensors[number], dtype=CARRIERS[mode])
            rounded[number, mode] = number
    for node in graph.nodes:
        if node.outputs[0] not in modes:
            nodes.append(node)
            continue
        mode, given = modes[node.outputs[0]], node.inputs[0]
        if (given, mode) not in rounded:
            number = max(tensors) + 1
            source = tensors[given]
            tensors[number] = Tensor(
                name=f"{source.name}:{mode}", shape=source.shape, dtype=CARRIERS[mode]
            )
            rounded[given, mode] = number
            nodes.append(Node(op=Op.QUANTIZE, inputs=(given,), outputs=(number,), index=node.index))
        tensors[node.inputs[1]] = _numbers(tensors[node.inputs[1]])
        nodes.append(
            replace(
                node,
                inputs=(rounded[given, mode], *node.inputs[1:]),
                attributes=_with_mode(node, mode),
            )
        )
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _with_mode(node: Node, mode: str) -> Conv2D | FullyConnected:
    attributes = node.attributes
    assert isinstance(attributes, Conv2D | FullyConnected)
    return replace(attributes, mode=mode)
