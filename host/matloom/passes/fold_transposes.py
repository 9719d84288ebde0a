"""Folds TRANSPOSEs of matrices into the matrix products that read them.

Exporters write attention as a TRANSPOSE that makes columns of the keys of each head, followed by a
product. A BATCH_MATMUL with a transposed operand does the same. The TRANSPOSE that then remains
moves whole rows, or is not needed at all.
"""

from dataclasses import replace

from matloom.ir.attributes import BatchMatmul, Transpose
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.ir.shapes import MATRIX_RANK


def fold_transposes(graph: Graph) -> Graph:
    """Return the graph with TRANSPOSEs of single bytes folded into the BATCH_MATMULs after them."""
    producers = {node.output: node for node in graph.nodes if node.op is Op.TRANSPOSE}
    tensors, nodes = dict(graph.tensors), list[Node]()
    for node in graph.nodes:
        if node.op is Op.BATCH_MATMUL:
            for side in range(MATRIX_RANK):
                producer = producers.get(node.inputs[side])
                if producer is not None and _moves_bytes(graph, producer):
                    node = _with_transposed_operand(tensors, nodes, producer, node, side)
        nodes.append(node)
    if tuple(nodes) == graph.nodes:
        return graph
    return replace(graph, nodes=tuple(nodes), tensors=tensors)


def _moves_bytes(graph: Graph, transpose: Node) -> bool:
    """Return whether a TRANSPOSE of int8 moves single bytes, because the last axis moves."""
    order = transpose.attributes_as(Transpose).permutation
    single = graph.tensors[transpose.output].dtype == "int8"
    return single and len(order) >= MATRIX_RANK and order[-2] == len(order) - 1


def _with_transposed_operand(
    tensors: dict[int, Tensor], nodes: list[Node], producer: Node, product: Node, side: int
) -> Node:
    """Return a BATCH_MATMUL that reads operand `side` (0 or 1) untransposed, and transposes it.

    If the TRANSPOSE also moves other axes, one that moves only these is added to `nodes`, and its
    result to `tensors`.
    """
    *batch, rows, columns = producer.attributes_as(Transpose).permutation
    order, source = (*batch, columns, rows), producer.inputs[0]
    if order != tuple(range(len(order))):
        made, number = tensors[producer.output], max(tensors) + 1
        shape = (*made.shape[:-2], made.shape[-1], made.shape[-2])
        tensors[number] = replace(made, name=f"{made.name}, rows", shape=shape)
        moves = Transpose(permutation=order)
        nodes.append(replace(producer, attributes=moves, inputs=(source,), outputs=(number,)))
        source = number
    attributes = product.attributes_as(BatchMatmul)
    flags = [attributes.adj_x, attributes.adj_y]
    flags[side] = not flags[side]
    inputs = (*product.inputs[:side], source, *product.inputs[side + 1 :])
    return replace(product, inputs=inputs, attributes=BatchMatmul(adj_x=flags[0], adj_y=flags[1]))
