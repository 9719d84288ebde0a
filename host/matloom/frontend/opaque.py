"""Opaque operators, which the graph does not know and an interpreter runs, and their grouping."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from matloom.ir.attributes import INTERPRETERS, Reference
from matloom.ir.graph import Node, Op, Tensor

#: Operators, with the type of their first input, whose TensorFlow Lite Micro kernel uses
#: uninitialised multipliers, so that results may differ from run to run.
_UNSET_IN_MICRO = frozenset({("GREATER", "int16")})

#: Operators whose TensorFlow Lite Micro kernel writes as many elements as a computed size says,
#: even beyond the end of its output.
_UNBOUND_IN_MICRO = frozenset({"SLICE"})


def interpreters_of(
    name: str, dtype: str, *, misread: bool, run_time_shape: bool
) -> tuple[str, ...]:
    """Return the interpreters that can run an operator, the preferred one first.

    TensorFlow Lite Micro is excluded if it might read or write out of bounds, or read uninitialised
    memory. LiteRT checks operators and refuses such accesses.

    Parameters
    ----------
    dtype:
        Type of the operator's first input.
    misread:
        Whether TensorFlow Lite Micro misreads the operator's tensors or options.
    run_time_shape:
        Whether the values of its inputs decide the shape of its output.
    """
    unbound = run_time_shape and name in _UNBOUND_IN_MICRO
    checked = misread or unbound or (name, dtype) in _UNSET_IN_MICRO
    return INTERPRETERS[1:] if checked else INTERPRETERS


@dataclass(frozen=True, kw_only=True)
class OpaqueOperator:
    """An operator of the file that no kernel here can run, so that an interpreter must.

    Members
    -------
    index:
        Index of the operator in the file.
    inputs, outputs:
        Tensor numbers.
    reason:
        Why no kernel here can run it, for messages.
    interpreters:
        Interpreters that may run it, the preferred one first.
    has_own_node:
        Whether it gets a node of its own, as a loop whose body the engine runs.
    """

    name: str
    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    reason: str
    interpreters: tuple[str, ...] = INTERPRETERS
    has_own_node: bool = False


def _reference_node(
    operators: Sequence[OpaqueOperator],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    file: int,
) -> Node:
    """Return the REFERENCE node that runs unknown operators of the model file in tensor `file`."""
    return Node(
        op=Op.REFERENCE,
        inputs=(*inputs, file),
        outputs=outputs,
        attributes=Reference(
            operators=tuple(item.name for item in operators),
            reasons=tuple(item.reason for item in operators),
            positions=tuple(item.index for item in operators),
            inputs=inputs,
            outputs=outputs,
            interpreters=operators[0].interpreters,
        ),
        index=operators[0].index,
    )


def _may_share_node(first: OpaqueOperator, second: OpaqueOperator) -> bool:
    """Return whether one node may hold both of two consecutive operators."""
    return first.interpreters == second.interpreters and not (
        first.has_own_node or second.has_own_node
    )


def common_interpreters(items: Sequence[Node | OpaqueOperator]) -> tuple[str, ...]:
    """Return the interpreters that can run all opaque operators among `items`."""
    opaque = [item for item in items if isinstance(item, OpaqueOperator)]
    return min((item.interpreters for item in opaque), key=len, default=INTERPRETERS)


def merge_opaque(
    items: Sequence[Node | OpaqueOperator],
    results: Sequence[int],
    file: int,
    is_computed: Callable[[int], bool],
) -> list[Node]:
    """Return a graph's nodes in order, with operators for an interpreter merged into REFERENCE.

    One REFERENCE node runs all consecutive opaque operators that have the same interpreters, unless
    they have their own node. The node is left out if none of its outputs is needed later.

    Parameters
    ----------
    items:
        Nodes and opaque operators in order of execution.
    results:
        Outputs of the network.
    file:
        Number of the tensor that holds the model file.
    is_computed:
        Returns whether the tensor of a number is neither constant nor internal state of its
        operator.
    """
    # Tensors read by each item or a later one.
    needed = [set(results)]
    for later in reversed(items):
        needed.append(needed[-1] | set(later.inputs))
    needed.reverse()
    nodes: list[Node] = []
    run: list[OpaqueOperator] = []
    ended: list[Node | OpaqueOperator | None] = [*items, None]
    for at, item in enumerate(ended):
        opaque = item if isinstance(item, OpaqueOperator) else None
        if run and (opaque is None or not _may_share_node(run[-1], opaque)):
            produced: list[int] = []
            inputs: list[int] = []
            for part in run:
                read = dict.fromkeys(part.inputs)
                inputs += [n for n in read if n not in (*produced, *inputs) and is_computed(n)]
                produced += part.outputs
            outputs = [number for number in produced if number in needed[at]]
            if outputs:
                nodes.append(_reference_node(run, tuple(inputs), tuple(outputs), file))
            run = []
        if opaque is not None:
            run.append(opaque)
        elif isinstance(item, Node):
            nodes.append(item)
    return nodes


def whole_network_node(
    names: Sequence[str],
    reason: str,
    inputs: Sequence[int],
    outputs: Sequence[int],
    interpreters: tuple[str, ...],
) -> Node:
    """Return the REFERENCE node that runs a whole network.

    The last tensor in `inputs` must be the model file. `reason` applies to all operators in
    `names`.
    """
    attributes = Reference(
        operators=tuple(names), reasons=(reason,) * len(names), interpreters=interpreters
    )
    return Node(
        op=Op.REFERENCE,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        attributes=attributes,
        index=0,
    )


def file_tensor(content: bytes) -> Tensor:
    """Return a constant tensor of type uint8 that holds a model file."""
    data = np.frombuffer(content, np.uint8)
    return Tensor(name="model file", shape=data.shape, dtype="uint8", data=data)
