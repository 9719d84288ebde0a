"""Makes the inputs and outputs of a network distinct tensors."""

from collections.abc import Sequence
from dataclasses import replace

from matloom.frontend.errors import Unsupported
from matloom.ir.graph import Node, Op, Tensor


def separate_inputs(
    inputs: Sequence[int], tensors: dict[int, Tensor], free: int
) -> tuple[int, ...]:
    """Return distinct inputs; a tensor that occurs twice uses the last value passed for it.

    New tensors, numbered from `free`, receive the values passed for the other occurrences.
    """
    separate = []
    for at, number in enumerate(inputs):
        if number in inputs[at + 1 :]:
            tensors[free] = tensors[number]
            number, free = free, free + 1
        separate.append(number)
    return tuple(separate)


def copy_outputs(
    outputs: Sequence[int], tensors: dict[int, Tensor], free: int, nodes: Sequence[Node]
) -> tuple[tuple[int, ...], list[Node]]:
    """Return distinct outputs, and operators that copy a tensor for its further occurrences.

    Raises
    ------
    Unsupported
        A repeated output has no elements, or may turn out to have none.
    """
    separate: list[int] = []
    copies = []
    for number in outputs:
        if number in separate:
            producers = [node for node in nodes if number in node.outputs]
            read = [at for node in producers if node.op is Op.REFERENCE for at in node.inputs]
            if any(tensors[at].size == 0 for at in (number, *read)):
                raise Unsupported(f"output {number} has no elements and occurs more than once")
            tensors[free] = replace(tensors[number], data=None)
            copies.append(Node(op=Op.RESHAPE, inputs=(number,), outputs=(free,), index=0))
            number, free = free, free + 1
        separate.append(number)
    return tuple(separate), copies
