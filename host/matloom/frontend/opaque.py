"""Opaque operators: those that the graph does not know, bound together for an interpreter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from matloom.ir.attributes import Reference
from matloom.ir.graph import Node, Op, Tensor

__all__ = ["JOINED", "OpaqueOperator", "bind", "file_tensor", "whole"]

#: Operators with effects beyond their tensors: a network that has one runs as a whole.
JOINED = frozenset(
    {
        *("CALL", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "IF"),
        "WHILE",
    }
)


@dataclass(frozen=True, kw_only=True)
class OpaqueOperator:
    """An operator of the file, by its tensors' numbers, and why no kernel here runs it."""

    name: str
    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    reason: str


def _node(
    run: Sequence[OpaqueOperator], inputs: tuple[int, ...], outputs: tuple[int, ...], file: int
) -> Node:
    return Node(
        op=Op.REFERENCE,
        inputs=(*inputs, file),
        outputs=outputs,
        attributes=Reference(
            operators=tuple(item.name for item in run),
            reason=run[0].reason,
            positions=tuple(item.index for item in run),
            inputs=inputs,
            outputs=outputs,
        ),
        index=run[0].index,
    )


def bind(
    items: Sequence[Node | OpaqueOperator],
    results: Sequence[int],
    file: int,
    computed: Callable[[int], bool],
) -> list[Node]:
    """Return nodes in order, with one REFERENCE node for each run of opaque operators.

    Parameters
    ----------
    items:
        Nodes and opaque operators in order of execution.
    results:
        Outputs of the network.
    file:
        Number of the tensor that holds the model file.
    computed:
        Whether a tensor is neither constant nor a state of its operator.
    """
    # What is read at each item or after it.
    needed = [set(results)]
    for later in reversed(items):
        needed.append(needed[-1] | set(later.inputs))
    needed.reverse()
    nodes: list[Node] = []
    run: list[OpaqueOperator] = []
    ended: list[Node | OpaqueOperator | None] = [*items, None]
    for at, item in enumerate(ended):
        if isinstance(item, OpaqueOperator):
            run.append(item)
            continue
        if run:
            produced: list[int] = []
            inputs: list[int] = []
            for part in run:
                read = dict.fromkeys(part.inputs)
                inputs += [n for n in read if n not in (*produced, *inputs) and computed(n)]
                produced += part.outputs
            outputs = [number for number in produced if number in needed[at]]
            if outputs:
                nodes.append(_node(run, tuple(inputs), tuple(outputs), file))
            run = []
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
