"""What each operator looks like: one entry of a table each."""

from dataclasses import dataclass

from matloom.ir.attributes import (
    Arithmetic,
    Attributes,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Pool2D,
    Softmax,
)
from matloom.ir.graph import Op
from matloom.ir.shapes import (
    ShapeRule,
    broadcast_shape,
    convolution_shape,
    dense_shape,
    depthwise_shape,
    pooling_shape,
    same_shape,
)

__all__ = ["OPERATORS", "Operator"]


@dataclass(frozen=True, kw_only=True)
class Operator:
    """The rules of one operator.

    Members
    -------

    Attributes
    ----------
        The class of its attributes.
    types:
        Types that it takes and gives, as ``"int8 int8 int32 -> int8"``.
    shape:
        Output shape from input shapes and attributes; None where only the size must agree.
    weight_axis:
        For input 1, constant weights: the axis that may have a scale for each channel.
    """

    attributes: type[Attributes] = Attributes
    types: frozenset[str]
    shape: ShapeRule | None = same_shape
    weight_axis: int | None = None


_WEIGHTED = frozenset({"int8 int8 int32 -> int8", "int8 int8 -> int8"})
_INT8 = frozenset({"int8 -> int8"})

OPERATORS = {
    Op.ADD: Operator(
        attributes=Arithmetic, types=frozenset({"int8 int8 -> int8"}), shape=broadcast_shape
    ),
    Op.AVERAGE_POOL_2D: Operator(attributes=Pool2D, types=_INT8, shape=pooling_shape),
    Op.CONV_2D: Operator(
        attributes=Conv2D, types=_WEIGHTED, shape=convolution_shape, weight_axis=0
    ),
    Op.DEPTHWISE_CONV_2D: Operator(
        attributes=DepthwiseConv2D, types=_WEIGHTED, shape=depthwise_shape, weight_axis=3
    ),
    Op.DEQUANTIZE: Operator(types=frozenset({"int8 -> float32", "int16 -> float32"})),
    Op.FULLY_CONNECTED: Operator(
        attributes=FullyConnected, types=_WEIGHTED, shape=dense_shape, weight_axis=0
    ),
    Op.LOG_SOFTMAX: Operator(types=frozenset({"float32 -> float32"})),
    Op.MAX_POOL_2D: Operator(attributes=Pool2D, types=_INT8, shape=pooling_shape),
    Op.QUANTIZE: Operator(types=frozenset({"float32 -> int8", "float32 -> int16", "int8 -> int8"})),
    Op.RESHAPE: Operator(
        types=frozenset(
            f"{dtype} -> {dtype}" for dtype in ("float32", "int8", "int16", "int32", "uint8")
        ),
        shape=None,
    ),
    Op.SOFTMAX: Operator(
        attributes=Softmax, types=frozenset({"int8 -> int8", "float32 -> float32"})
    ),
}
