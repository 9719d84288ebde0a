"""Operators that the graph does not know: bound together for a reference interpreter."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from matloom.ir.attributes import Reference
from matloom.ir.graph import Node, Op, Tensor

__all__ = ["JOINED", "Foreign", "bind", "file_tensor", "whole"]

#: Operators that reach beyond their tensors: the network stays in one piece around them.
JOINED = frozenset(
    {
        *("CALL", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "IF"),
        "WHILE",
    }
)


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """An operator of the file, by its tensors' numbers, and why no kernel here runs it."""

    name: str
    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    reason: str


def _node(run: Sequence[Foreign], inputs: Iterable[int], outputs: Iterable[int], file: int) -> Node:
    given, made = tuple(inputs), tuple(outputs)
    return Node(
        op=Op.REFERENCE,
        inputs=(*given, file),
        outputs=made,
        attributes=Reference(
            operators=tuple(item.name for item in run),
            reason=run[0].reason,
            positions=tuple(item.index for item in run),
            inputs=given,
            outputs=made,
        ),
        index=run[0].index,
    )


def bind(
    items: Sequence[Node | Foreign],
    results: Sequence[int],
    file: int,
    computed: Callable[[int], bool],
) -> list[Node]:
    """Return nodes in order, with a REFERENCE node for each stretch of foreign operators.

    Parameters
    ----------
    items:
        Nodes and foreign operators in order of execution.
    results:
        Outputs of the network.
    file:
        Number of the tensor that holds the model file.
    computed:
        Whether a tensor is neither constant nor a state of its operator.
    """
    wanted = [set(results)]
    for later in reversed(items):
        wanted.append(wanted[-1] | set(later.inputs))
    wanted.reverse()
    nodes: list[Node] = []
    stretch: list[Foreign] = []
    ended: list[Node | Foreign | None] = [*items, None]
    for at, item in enumerate(ended):
        if isinstance(item, Foreign):
            stretch.append(item)
            continue
        if stretch:
            made: list[int] = []
            inputs: list[int] = []
            for part in stretch:
                read = dict.fromkeys(part.inputs)
                inputs += [n for n in read if n not in (*made, *inputs) and computed(n)]
                made += part.outputs
            outputs = [number for number in made if number in wanted[at]]
            if outputs:
                nodes.append(_node(stretch, inputs, outputs, file))
            stretch = []
        if item is not None:
            nodes.append(item)
    return nodes


def whole(
    names: Sequence[str], reason: str, inputs: Sequence[int], outputs: Sequence[int], file: int
) -> Node:
    """Return the REFERENCE node of a network as a whole."""
    return Node(
        op=Op.REFERENCE,
        inputs=(*inputs, file),
        outputs=tuple(outputs),
        attributes=Reference(operators=tuple(names), reason=reason),
        index=0,
    )


def file_tensor(content: bytes) -> Tensor:
    """Return a model file as a constant of bytes."""
    data = np.frombuffer(content, np.uint8)
    return Tensor(name="model file", shape=data.shape, dtype="uint8", data=data)
