"""Table lookups of int8 in TensorFlow Lite files: CAST to int32, ADD of 128, GATHER from a table.

Both interpreters run these three operators on int8; the format has no operator for lookups.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from matloom.frontend.opaque import OpaqueOperator
from matloom.frontend.tflite.additions import Additions
from matloom.frontend.tflite.flatbuffer import options
from matloom.frontend.tflite.tensors import FileTensors
from matloom.ir.attributes import Function, Lookup
from matloom.ir.graph import Array, Graph, Node, Op, Tensor
from matloom.kernels.functions import FUNCTIONS
from matloom.kernels.kernels import kernel_of

#: Number that is added to an int8 value to get its index in a table.
OFFSET = 128

Item = Node | OpaqueOperator


def table_of(graph: Graph, node: Node) -> Array | None:
    """Return the table, int8 (256,), of a LOOKUP, or of a FUNCTION that TensorFlow Lite lacks.

    The results are in ascending order of the input. Returns None for other nodes.

    Raises
    ------
    ValueError
        The input or the output is not int8.
    """
    named = node.op is Op.FUNCTION and node.attributes_as(Function).function in FUNCTIONS
    if named or node.op not in (Op.FUNCTION, Op.LOOKUP):
        return None
    for number in (node.inputs[0], node.output):
        if graph.tensors[number].dtype != "int8":
            raise ValueError(f"{node} must be of int8, not {graph.tensors[number].dtype}")
    every = np.arange(-OFFSET, OFFSET).astype(np.int8)
    results = kernel_of(node, [every])(graph, node, [every])
    assert isinstance(results, np.ndarray)
    return results


def table_tensors(graph: Graph, node: Node, table: Array) -> list[Tensor]:
    """Return the tensors to be added to the file for a CAST, an ADD and a GATHER from a table.

    The three operators replace `node` and look up each byte of its input. The tensors are the
    result of CAST (int32), the addend, the result of ADD (indices into the table), and the table.
    """
    given, made = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    cast = replace(made, name=f"{made.name}/byte", dtype="int32", quantisation=None)
    offset = np.array([OFFSET], np.int32)
    return [
        replace(cast, shape=given.shape),
        Tensor(name=f"{made.name}/offset", shape=(1,), dtype="int32", data=offset),
        replace(cast, name=f"{made.name}/index", shape=given.shape),
        replace(made, name=f"{made.name}/table", shape=table.shape, data=table),
    ]


def join_tables(
    items: Sequence[Item], operators: Sequence[Any], additions: Additions, results: Iterable[int]
) -> list[Item]:
    """Return `items` with a LOOKUP instead of each CAST, ADD and GATHER that look up bytes.

    Parameters
    ----------
    items:
        Nodes and opaque operators in order of execution.
    operators:
        The operators of the file, by index.
    results:
        Numbers of the network's outputs.
    """
    producers = {number: item for item in items for number in item.outputs}
    readers = Counter([*results, *(number for item in items for number in item.inputs)])
    joined, parts = dict[int, Node](), set[int]()
    for item in items:
        found = _cast_add_gather(item, producers, readers)
        node = None if found is None else _lookup(found, operators, additions.known)
        if found is not None and node is not None:
            for number in (*node.inputs, *node.outputs):
                additions.use(number)
            joined[item.index] = node
            parts |= {part.index for part in found[:2]}
    return [joined.get(item.index, item) for item in items if item.index not in parts]


def _cast_add_gather(
    item: Item, producers: Mapping[int, Item], readers: Mapping[int, int]
) -> tuple[OpaqueOperator, OpaqueOperator, Node] | None:
    """Return the CAST and the ADD before a GATHER, and the GATHER; None if `item` is not one.

    The result is also None if another operator reads the result of the CAST or the ADD.
    """
    found = [item]
    for place in (1, 0):
        inputs = found[0].inputs
        number = inputs[place] if place < len(inputs) else -1
        before = producers.get(number)
        if before is None or readers[number] != 1:
            return None
        found.insert(0, before)
    cast, add, gather = found
    match cast, add, gather:
        case OpaqueOperator(name="CAST"), OpaqueOperator(name="ADD"), Node(op=Op.GATHER):
            return cast, add, gather
    return None


def _lookup(
    parts: tuple[OpaqueOperator, OpaqueOperator, Node],
    operators: Sequence[Any],
    tensors: FileTensors,
) -> Node | None:
    """Return the LOOKUP that equals a CAST, an ADD and a GATHER; None if there is none."""
    cast, add, gather = parts
    x, offset, table, made = (
        tensors.opaque_tensor(number)
        for number in (cast.inputs[0], add.inputs[1], gather.inputs[0], gather.outputs[0])
    )
    sums = options(operators[add.index], tflite.AddOptions)
    index = tensors.opaque_tensor(gather.inputs[1])
    shifted = offset.data is not None and offset.data.reshape(-1).tolist() == [OFFSET]
    bytes_only = {x.dtype, table.dtype, made.dtype} == {"int8"} and index.dtype == "int32"
    plain = not sums.FusedActivationFunction()
    whole = table.data is not None and table.shape == (2 * OFFSET,)
    if not (shifted and bytes_only and plain and whole and x.shape == made.shape and made.size):
        return None
    assert table.data is not None
    return Node(
        op=Op.LOOKUP,
        inputs=(cast.inputs[0],),
        outputs=(gather.outputs[0],),
        attributes=Lookup(table=tuple(table.data.tolist())),
        index=gather.index,
    )
