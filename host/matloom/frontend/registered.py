"""Converts registered operators to the nodes of their stages, or to one that runs their kernel."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from matloom.frontend.errors import ModelError
from matloom.ir.attributes import REGISTERED, Reference
from matloom.ir.graph import Node, Op, Tensor
from matloom.kernels.expansion import expand
from matloom.kernels.registered import OperatorUse, RegisteredOperator, options_tensor


class RegisteredOperatorError(ModelError):
    """Error for an operator of a model file that does not match its registration."""


def nodes_of(
    operator: RegisteredOperator,
    use: OperatorUse,
    inputs_and_outputs: tuple[Sequence[int], Sequence[int]],
    index: int,
    add: Callable[[Tensor], int],
) -> list[Node]:
    """Return the nodes that replace a registered operator: its expansion, or a call of its kernel.

    Parameters
    ----------
    use:
        Shapes, types and attributes with which the file uses the operator.
    inputs_and_outputs:
        Numbers of the operator's inputs and outputs in the network.
    index:
        The operator's index in the file.
    add:
        Adds a tensor to the network and returns its number.

    Raises
    ------
    OperatorError
        The stages and the kernel give different results.
    """
    if operator.stages is None:
        return [_kernel_node(operator, use, inputs_and_outputs, index, add)]
    expansion = expand(operator, use)
    numbers = dict(zip(expansion.inputs, inputs_and_outputs[0], strict=True))
    numbers.update(zip(expansion.outputs, inputs_and_outputs[1], strict=True))
    used = {number for node in expansion.graph.nodes for number in (*node.inputs, *node.outputs)}
    for number in sorted(used - set(numbers)):
        numbers[number] = add(expansion.graph.tensors[number])
    return [
        replace(
            node,
            inputs=tuple(numbers[number] for number in node.inputs),
            outputs=tuple(numbers[number] for number in node.outputs),
            index=index,
        )
        for node in expansion.graph.nodes
    ]


def _kernel_node(
    operator: RegisteredOperator,
    use: OperatorUse,
    inputs_and_outputs: tuple[Sequence[int], Sequence[int]],
    index: int,
    add: Callable[[Tensor], int],
) -> Node:
    """Return the node that runs a registered kernel; its last input encodes the attributes."""
    inputs, outputs = map(tuple, inputs_and_outputs)
    options = add(options_tensor(operator.name, use.attributes))
    attributes = Reference(
        operators=(operator.name,),
        reasons=(f"{operator.name} is registered without stages",),
        positions=(index,),
        inputs=inputs,
        outputs=outputs,
        interpreters=REGISTERED,
    )
    return Node(
        op=Op.REFERENCE,
        inputs=(*inputs, options),
        outputs=outputs,
        attributes=attributes,
        index=index,
    )
