"""Recognises dense layers whose weights are computed."""

from collections.abc import Sequence

from matloom.ir.graph import Node, Op, Tensor


def has_computed_weights(node: Node, inputs: Sequence[Tensor]) -> bool:
    """Return whether a dense layer of int8 multiplies two computed tensors, without a bias."""
    types = [tensor.dtype for tensor in inputs]
    return node.op is Op.FULLY_CONNECTED and types == ["int8"] * 2 and inputs[1].data is None
