"""Networks of int8 as networks of uint8."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from matloom.ir.graph import Graph, Tensor

#: The layers whose second input is weights, by `Node.op`.
_LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")


def unsigned(array: np.ndarray) -> np.ndarray:
    """Return bytes of int8 as uint8, 128 more."""
    return (array.astype(np.int16) + 128).astype(np.uint8)


def as_unsigned(graph: Graph, zero_of: Callable[[Tensor], int]) -> Graph | None:
    """Return an int8 network as uint8; None if a tensor has another type or several scales.

    Parameters
    ----------
    zero_of:
        Returns the zero point of constant weights.
    """
    weights = {node.inputs[1] for node in graph.nodes if node.op in _LAYERS}
    tensors = dict(graph.tensors)
    for number, tensor in tensors.items():
        scales = tensor.quantisation
        if tensor.dtype in ("float32", "int32"):
            continue
        if tensor.dtype != "int8" or scales is None or len(scales.scale) != 1:
            return None
        zero = scales.zero_point[0] + 128
        if number in weights and tensor.data is not None:
            zero = zero_of(tensor)
        data = None if tensor.data is None else unsigned(tensor.data)
        scales = replace(scales, zero_point=(zero,), axis=None)
        tensors[number] = replace(tensor, dtype="uint8", quantisation=scales, data=data)
    return replace(graph, tensors=tensors)
