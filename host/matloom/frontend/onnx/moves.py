"""ONNX operators that move bytes between operators on the engine."""

from collections.abc import Callable
from typing import Any

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.quantised import attribute
from matloom.frontend.onnx.values import LAST, Values, in_file_order, kept_axes
from matloom.frontend.onnx.weighted import spatial_padding
from matloom.ir.attributes import Pool2D
from matloom.ir.graph import Op

__all__ = ["MOVES"]


def reshape(values: Values, node: Any, source: str, made: str) -> None:
    """Convert Reshape, Flatten, Squeeze, Unsqueeze and Identity, which keep the file's order.

    A value that is held in another order is moved only when a reader needs the file's order.
    """
    value, wanted = values.known[source], values.known[made]
    wanted.quantisation, wanted.flattened = value.quantisation, source
    plain = kept_axes(in_file_order(len(value.shape)), value.shape)
    if not value.held or any(kept_axes(order, value.shape) == plain for order in value.held):
        values.bytes_of(made, in_file_order(len(wanted.shape)))


def transpose(values: Values, node: Any, source: str, made: str) -> None:
    """Convert Transpose: the same tensor with another axis order."""
    value = values.known[source]
    rank = len(value.shape)
    permutation = list(attribute(node, "perm", list(reversed(range(rank)))))
    if not value.held:
        values.bytes_of(source, in_file_order(rank))
    for order, number in value.held.items():
        values.hold(made, tuple(permutation.index(axis) for axis in order), number)


def max_pool(values: Values, node: Any, source: str, made: str) -> None:
    """Convert MaxPool of images."""
    value, wanted = values.known[source], values.known[made]
    window = tuple(attribute(node, "kernel_shape", []))
    strides = tuple(attribute(node, "strides", [1] * len(window)))
    dilations = tuple(attribute(node, "dilations", [1] * len(window)))
    if len(window) != 2 or dilations != (1, 1) or len([name for name in node.output if name]) > 1:
        raise Unsupported("has a window of other than two dimensions, or gaps in it, or indices")
    if attribute(node, "ceil_mode", 0) or attribute(node, "storage_order", 0):
        raise Unsupported("has an output whose size is rounded up")
    image = list(value.shape[2:])
    padding = spatial_padding(node, image, window, (strides, dilations), wanted.shape[2:])
    number = values.bytes_of(source, LAST)
    attributes = Pool2D(window=window, stride=strides, padding=padding)
    shape = tuple(wanted.shape[axis] for axis in LAST)
    pooled = values.made(Op.MAX_POOL_2D, [number], shape, value.quantisation, made, attributes)
    values.hold(made, LAST, pooled)


#: Converters by operator name; the other arguments are the names of input 0 and output 0.
MOVES: dict[str, Callable[[Values, Any, str, str], None]] = {
    **dict.fromkeys(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"), reshape),
    "MaxPool": max_pool,
    "Transpose": transpose,
}
