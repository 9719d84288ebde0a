"""The kernel of each operator: one entry of a table each."""

from collections.abc import Callable, Sequence

from matloom.hostops.conversion import dequantize, quantize, reshape
from matloom.hostops.elementwise import add
from matloom.hostops.pooling import average_pool, max_pool
from matloom.hostops.softmax import log_softmax, softmax
from matloom.hostops.weighted import convolution, dense, depthwise
from matloom.ir.graph import Array, Graph, Node, Op

__all__ = ["KERNELS", "Kernel"]

#: Graph and node say how; the arrays are the node's inputs in order. Returns the only output.
Kernel = Callable[[Graph, Node, Sequence[Array]], Array]

KERNELS: dict[Op, Kernel] = {
    Op.ADD: add,
    Op.AVERAGE_POOL_2D: average_pool,
    Op.CONV_2D: convolution,
    Op.DEPTHWISE_CONV_2D: depthwise,
    Op.DEQUANTIZE: dequantize,
    Op.FULLY_CONNECTED: dense,
    Op.LOG_SOFTMAX: log_softmax,
    Op.MAX_POOL_2D: max_pool,
    Op.QUANTIZE: quantize,
    Op.RESHAPE: reshape,
    Op.SOFTMAX: softmax,
}
