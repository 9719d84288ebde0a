"""Chooses the kernel of each operator from tables, one for each kind of arithmetic."""

from collections.abc import Callable, Sequence

from matloom.ir.graph import Array, Graph, Node, Op
from matloom.kernels.activations import (
    float_hard_swish,
    float_leaky_relu,
    float_relu,
    float_sigmoid,
    hard_swish,
    leaky_relu,
    lookup,
    relu,
    relu6,
    sigmoid,
)
from matloom.kernels.conversion import dequantize, quantize, reshape
from matloom.kernels.elementwise import (
    add,
    float_arithmetic,
    float_prelu,
    float_squared_difference,
    maximum,
    minimum,
    multiply,
    prelu,
    squared_difference,
)
from matloom.kernels.floating import (
    float_convolution,
    float_dense,
    float_depthwise,
    float_transposed_convolution,
)
from matloom.kernels.functions import byte_function, float_function
from matloom.kernels.hybrid import hybrid_convolution, hybrid_dense
from matloom.kernels.matmul import batch_matmul
from matloom.kernels.moves import (
    concatenation,
    gather,
    pack,
    pad_tensor,
    resize_nearest,
    slice_tensor,
    split,
    transpose,
    unpack,
)
from matloom.kernels.pooling import average_pool, float_average_pool, float_max_pool, max_pool
from matloom.kernels.recurrence import lstm_cell
from matloom.kernels.reduction import arg_extreme, float_reduction, reduction
from matloom.kernels.softmax import log_softmax, softmax
from matloom.kernels.weighted import convolution, dense, depthwise, transposed_convolution

#: Kernel of a node: takes the graph, the node and its inputs in order, and returns the output, or a
#: tuple of several.
Kernel = Callable[[Graph, Node, Sequence[Array]], Array | tuple[Array, ...]]

KERNELS: dict[Op, Kernel] = {
    Op.ADD: add,
    Op.ARG_MAX: arg_extreme,
    Op.ARG_MIN: arg_extreme,
    Op.AVERAGE_POOL_2D: average_pool,
    Op.BATCH_MATMUL: batch_matmul,
    Op.CONCATENATION: concatenation,
    Op.CONV_2D: convolution,
    Op.DEPTHWISE_CONV_2D: depthwise,
    Op.DEQUANTIZE: dequantize,
    Op.EXPAND_DIMS: reshape,
    Op.FULLY_CONNECTED: dense,
    Op.FUNCTION: byte_function,
    Op.GATHER: gather,
    Op.HARD_SWISH: hard_swish,
    Op.LEAKY_RELU: leaky_relu,
    Op.LOGISTIC: sigmoid,
    Op.LOG_SOFTMAX: log_softmax,
    Op.LOOKUP: lookup,
    Op.LSTM_CELL: lstm_cell,
    Op.MAXIMUM: maximum,
    Op.MAX_POOL_2D: max_pool,
    Op.MEAN: reduction,
    Op.MINIMUM: minimum,
    Op.MUL: multiply,
    Op.PACK: pack,
    Op.PAD: pad_tensor,
    Op.PADV2: pad_tensor,
    Op.PRELU: prelu,
    Op.QUANTIZE: quantize,
    Op.RELU: relu,
    Op.RELU6: relu6,
    Op.RESHAPE: reshape,
    Op.RESIZE_NEAREST_NEIGHBOR: resize_nearest,
    Op.SLICE: slice_tensor,
    Op.SOFTMAX: softmax,
    Op.SPLIT: split,
    Op.SPLIT_V: split,
    Op.SQUARED_DIFFERENCE: squared_difference,
    Op.SQUEEZE: reshape,
    Op.STRIDED_SLICE: slice_tensor,
    Op.SUB: add,
    Op.SUM: reduction,
    Op.TANH: sigmoid,
    Op.TRANSPOSE: transpose,
    Op.TRANSPOSE_CONV: transposed_convolution,
    Op.UNPACK: unpack,
}

#: Kernels for a float32 first input, for operators whose kernel in `KERNELS` is for integers.
FLOAT_KERNELS: dict[Op, Kernel] = {
    Op.ADD: float_arithmetic,
    Op.AVERAGE_POOL_2D: float_average_pool,
    Op.CONV_2D: float_convolution,
    Op.DEPTHWISE_CONV_2D: float_depthwise,
    Op.FUNCTION: float_function,
    Op.FULLY_CONNECTED: float_dense,
    Op.HARD_SWISH: float_hard_swish,
    Op.LEAKY_RELU: float_leaky_relu,
    Op.LOGISTIC: float_sigmoid,
    Op.MAX_POOL_2D: float_max_pool,
    Op.MEAN: float_reduction,
    Op.MUL: float_arithmetic,
    Op.PRELU: float_prelu,
    Op.RELU: float_relu,
    Op.RELU6: float_relu,
    Op.SQUARED_DIFFERENCE: float_squared_difference,
    Op.SUB: float_arithmetic,
    Op.SUM: float_reduction,
    Op.TANH: float_sigmoid,
    Op.TRANSPOSE_CONV: float_transposed_convolution,
}

#: Kernels for a float32 input, int8 weights and a float32 output.
HYBRID_KERNELS: dict[Op, Kernel] = {
    Op.CONV_2D: hybrid_convolution,
    Op.FULLY_CONNECTED: hybrid_dense,
}


def kernel_of(node: Node, inputs: Sequence[Array]) -> Kernel:
    """Return the kernel of an operator for the types of its inputs."""
    types = [array.dtype.name for array in inputs[:2]]
    if types == ["float32", "int8"] and node.op in HYBRID_KERNELS:
        return HYBRID_KERNELS[node.op]
    if types[0] == "float32" and node.op in FLOAT_KERNELS:
        return FLOAT_KERNELS[node.op]
    return KERNELS[node.op]
