"""Multiply-accumulates and bytes of an operator, regardless of where it runs."""

import math
from collections import Counter

from matloom.ir.attributes import BatchMatmul
from matloom.ir.graph import Graph, Node, Op
from matloom.ir.operators import OPERATORS

#: Names of operators whose multiply-accumulates are known. Those of other operators, such as RNN,
#: WHILE or custom ones, are not counted.
_COUNTED = frozenset(OPERATORS) | {
    *("ABS", "ADD_N", "ARG_MAX", "ARG_MIN", "ASSIGN_VARIABLE", "BATCH_TO_SPACE_ND", "BROADCAST_TO"),
    *("CALL_ONCE", "CAST", "CEIL", "COS", "DEPTH_TO_SPACE", "DIV", "ELU", "EQUAL", "EXP", "FILL"),
    *("FLOOR", "FLOOR_DIV", "FLOOR_MOD", "GATHER", "GATHER_ND", "GELU", "GREATER", "GREATER_EQUAL"),
    *("L2_NORMALIZATION", "LESS", "LESS_EQUAL", "LOG", "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR"),
    *("MIRROR_PAD", "NEG", "NOT_EQUAL", "ONE_HOT", "POW", "RANGE", "READ_VARIABLE", "REDUCE_MAX"),
    *("REDUCE_MIN", "RESIZE_BILINEAR", "REVERSE_V2", "ROUND", "RSQRT", "SELECT", "SELECT_V2"),
    *("SHAPE", "SIN", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SQRT", "SQUARE"),
    *("TILE", "TOPK_V2", "UNIDIRECTIONAL_SEQUENCE_LSTM", "VAR_HANDLE"),
    *("WHERE", "ZEROS_LIKE"),
    # Operators of ONNX.
    *("Conv", "ConvInteger", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger", "QLinearConv"),
    *("QLinearMatMul", "com.microsoft.QGemm"),
    *("Abs", "Add", "AveragePool", "BatchNormalization", "Cast", "Ceil", "Clip", "Concat"),
    *("Constant", "DequantizeLinear", "Div", "Dropout", "Elu", "Erf", "Exp", "Expand", "Flatten"),
    *("Floor", "Gather", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish"),
    *("Identity", "LeakyRelu", "Log", "MaxPool", "Mul", "Neg", "Pad", "Pow", "PRelu"),
    *("QuantizeLinear", "Relu", "Reshape", "Shape", "Sigmoid", "Slice", "Softmax", "Split", "Sqrt"),
    *("Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze", "Where"),
    *(f"com.microsoft.QLinear{name}" for name in ("Add", "AveragePool", "Concat", "Mul")),
    *(f"com.microsoft.QLinear{name}" for name in ("GlobalAveragePool", "LeakyRelu", "Sigmoid")),
    "com.microsoft.QLinearSoftmax",
}


def is_counted(operator: str) -> bool:
    """Return whether the number of multiply-accumulates is known for operators of this name."""
    return operator in _COUNTED


def macs(graph: Graph, node: Node) -> int:
    """Return the number of multiply-accumulates of a layer or a product; 0 for other operators."""
    output = graph.tensors[node.outputs[0]].shape
    if isinstance(node.attributes, BatchMatmul):
        axis = -2 if node.attributes.adj_x else -1
        return math.prod(output) * graph.tensors[node.inputs[0]].shape[axis]
    if OPERATORS[node.op].weight_axis is None:
        return 0
    data, weights = (graph.tensors[number].shape for number in node.inputs[:2])
    if node.op is Op.TRANSPOSE_CONV:
        return math.prod(data) * math.prod(weights[:3])
    if node.op is Op.DEPTHWISE_CONV_2D:
        return math.prod(output) * math.prod(weights[1:3])
    return math.prod(output) * math.prod(weights[1:])


def shared_macs(graph: Graph, source: Graph) -> dict[int, int]:
    """Return the number of multiply-accumulates of each node, as counted in `source`.

    The key is the node's first output. Passes add weights of zero to layers, or turn moves into
    convolutions, so the nodes of `graph` that come from one operator of the source share its
    multiply-accumulates. Shares are in proportion to the nodes' own counts.
    """
    wanted, there = Counter[int](), Counter[int]()
    for each, totals in ((source, wanted), (graph, there)):
        for node in each.nodes:
            totals[node.index] += macs(each, node)
    return {
        node.outputs[0]: macs(graph, node) * wanted[node.index] // max(1, there[node.index])
        for node in graph.nodes
    }


def tensor_bytes(graph: Graph, node: Node) -> int:
    """Return the size in bytes of all tensors that an operator reads or writes, with constants."""
    numbers = {*node.inputs, *node.outputs}
    return sum(graph.tensors[number].size_bytes for number in numbers)
