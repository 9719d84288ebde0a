"""Rules of products of two computed tensors."""

from collections.abc import Sequence

from matloom.arch.numerics import quantize_multiplier
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.ir.scales import STATED, states_multipliers


def matmul_multiplier(graph: Graph, node: Node) -> tuple[int, int]:
    """Return the multiplier and shift of BATCH_MATMUL.

    TensorFlow Lite Micro multiplies the scales of the inputs in float64. Products from ONNX state
    both as a constant input, as layers do (`scales.channel_multipliers`).
    """
    if states_multipliers(node):
        stated = graph.tensors[node.inputs[STATED[node.op]]].data
        if stated is None:
            raise ValueError("the multiplier must be constant")
        multiplier, shift = stated.reshape(-1).tolist()
        return multiplier, shift
    first, second = (graph.tensors[number].scale for number in node.inputs)
    pair: tuple[int, int] = quantize_multiplier(first * second / graph.tensors[node.output].scale)
    return pair


def has_computed_weights(node: Node, inputs: Sequence[Tensor]) -> bool:
    """Return whether a dense layer of int8 multiplies two computed tensors, without a bias."""
    types = [tensor.dtype for tensor in inputs]
    return node.op is Op.FULLY_CONNECTED and types == ["int8"] * 2 and inputs[1].data is None
