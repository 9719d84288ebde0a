"""Makes the inputs and outputs of a network distinct tensors."""

from collections.abc import Sequence
from dataclasses import replace

from matloom.frontend.errors import Unsupported
from matloom.ir.graph import Node, Op, Tensor


def separate_inputs(
    inputs: Sequence[int], tensors: dict[int, Tensor], first_free: int
) -> tuple[int, ...]:
    """Return the inputs' tensor numbers, each distinct; repeated inputs get new tensors.

    If an input occurs more than once in `inputs`, its tensor keeps the value passed last. A new
    tensor, numbered from `first_free`, is added to `tensors` for each earlier occurrence, and its
    value is ignored.
    """
    separate = []
    for at, number in enumerate(inputs):
        if number in inputs[at + 1 :]:
            tensors[first_free] = tensors[number]
            number, first_free = first_free, first_free + 1
        separate.append(number)
    return tuple(separate)


def copy_outputs(
    outputs: Sequence[int], tensors: dict[int, Tensor], first_free: int, nodes: Sequence[Node]
) -> tuple[tuple[int, ...], list[Node]]:
    """Return the outputs' tensor numbers, each distinct, and nodes that copy repeated outputs.

    If an output occurs more than once in `outputs`, a RESHAPE copies it to a new tensor for each
    further occurrence. The new tensors, numbered from `first_free`, are added to `tensors`.

    Raises
    ------
    Unsupported
        A repeated output has no elements, or comes from a REFERENCE node that reads a tensor
        without elements, so that it may turn out to have none.
    """
    separate: list[int] = []
    copies = []
    for number in outputs:
        if number in separate:
            producers = [node for node in nodes if number in node.outputs]
            read = [at for node in producers if node.op is Op.REFERENCE for at in node.inputs]
            if any(tensors[at].size == 0 for at in (number, *read)):
                raise Unsupported(f"output {number} has no elements and occurs more than once")
            tensors[first_free] = replace(tensors[number], data=None)
            copies.append(Node(op=Op.RESHAPE, inputs=(number,), outputs=(first_free,), index=0))
            number, first_free = first_free, first_free + 1
        separate.append(number)
    return tuple(separate), copies
