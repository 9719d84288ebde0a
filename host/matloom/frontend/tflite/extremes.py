"""Converts REDUCE_MAX and REDUCE_MIN of int8 to MAX_POOL_2D with a window over the reduced axes."""

import math
from dataclasses import replace

from matloom.frontend.errors import Contradiction, Unsupported
from matloom.frontend.tflite.additions import Additions, FileItem
from matloom.frontend.tflite.parameters import PARAMETER_READERS
from matloom.ir.attributes import Attributes, Lookup, Pool2D, Reduce
from matloom.ir.graph import Node, Op, Tensor
from matloom.ir.moves import reduced_shape

EXTREMES = frozenset({"REDUCE_MAX", "REDUCE_MIN"})

#: Table of -1 - x for each byte x, which turns a minimum into a maximum.
_COMPLEMENT = Lookup(table=tuple(range(127, -129, -1)))


def extreme_nodes(item: FileItem, additions: Additions) -> list[Node]:
    """Return the nodes that replace a REDUCE_MAX or REDUCE_MIN.

    Raises
    ------
    Unsupported
        It is not of int8 with one scale, reduces axes that are not adjacent, or none, or has no
        elements.
    Contradiction
        The declared shape of the output is wrong.
    """
    known = additions.known
    data, result = known[item.inputs[0]], known[item.outputs[0]]
    inputs = [known[number] for number in item.inputs]
    attributes = PARAMETER_READERS[Op.MEAN](item.table, inputs, [result])
    assert isinstance(attributes, Reduce)
    axes = attributes.axes
    made = reduced_shape([data.shape], attributes)
    if math.prod(made) != result.size:
        raise Contradiction(f"must have an output of shape {made}, not {result.shape}")
    if not axes or not data.size:
        raise Unsupported(f"reduces axes {axes} of {data.shape}")
    if made != result.shape:
        raise Contradiction(f"must not make {result.shape} of {data.shape}")
    one_scale = data.quantisation is not None and data.quantisation == result.quantisation
    if not one_scale or {data.dtype, result.dtype} != {"int8"}:
        raise Unsupported("must have int8 of one scale")
    if axes != tuple(range(axes[0], axes[-1] + 1)):
        raise Unsupported(f"reduces axes that are not neighbours, {axes}")
    outer, (*others, last) = data.shape[: axes[0]], data.shape[axes[0] : axes[-1] + 1]
    window = math.prod(others), last
    image = math.prod(outer), *window, math.prod(data.shape[axes[-1] + 1 :])
    pool = Pool2D(window=window, stride=window)
    steps: list[tuple[Op, Attributes, tuple[int, ...]]] = [
        (Op.RESHAPE, Attributes(), image),
        (Op.MAX_POOL_2D, pool, (image[0], 1, 1, image[3])),
    ]
    if item.name == "REDUCE_MIN":
        steps.insert(1, (Op.LOOKUP, _COMPLEMENT, image))
        steps.append((Op.LOOKUP, _COMPLEMENT, steps[-1][2]))
    return _chain_nodes(item, additions, [*steps, (Op.RESHAPE, Attributes(), result.shape)], result)


def _chain_nodes(
    item: FileItem,
    additions: Additions,
    steps: list[tuple[Op, Attributes, tuple[int, ...]]],
    result: Tensor,
) -> list[Node]:
    """Return one node for each step (operator, attributes, shape); each reads the one before.

    The first node reads the operator's first input, and the last one makes its output.
    """
    number, nodes = additions.use(item.inputs[0]), []
    for at, (op, attributes, shape) in enumerate(steps):
        if at == len(steps) - 1:
            made = additions.use(item.outputs[0])
        else:
            name = f"{result.name} step {at}"
            made = additions.add(replace(result, name=name, shape=shape))
        node = Node(
            op=op, inputs=(number,), outputs=(made,), attributes=attributes, index=item.index
        )
        nodes.append(node)
        number = made
    return nodes
