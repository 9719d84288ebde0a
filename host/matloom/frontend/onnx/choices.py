"""Converts Where with a constant condition on quantised tensors, as in masks of attention.

Where the condition chooses the computed tensor, its bytes change their quantisation; elsewhere, the
result is constant. On bytes this is a function, a product with 0 or 1, and a sum with constants.
The product and the sum do not round.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.functions import bytes_as_int8, constant_value, every_byte, run_alone
from matloom.frontend.onnx.quantised import Model, quantisation_of
from matloom.frontend.onnx.unary import add_function
from matloom.frontend.onnx.values import Values, as_int8
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Array, Op, Quantisation

#: Indices of the inputs of QLinearWhere that hold the operands. The scale and zero point follow.
_OPERANDS = (1, 4)


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """A Where that chooses between a computed tensor of bytes and a constant.

    Members
    -------
    node, nodes:
        The Where, and all operators from `source` to `output`.
    source, output:
        Names of the values of bytes that are read and made.
    ends:
        Quantisations of `source` and `output`, in the file's types.
    computed_input, constant_input:
        Input index of the computed operand, and that of the constant.
    """

    node: Any
    nodes: list[Any]
    source: str
    output: str
    ends: tuple[Quantisation, Quantisation]
    computed_input: int
    constant_input: int


def convert_integer_choice(values: Values, model: Model, node: Any) -> Claim:
    """Convert a QLinearWhere; return its exactness: all results equal ONNX Runtime's.

    Raises
    ------
    Unsupported
        Its condition is computed, both operands are computed or both constant, or it broadcasts the
        computed operand.
    """
    computed = [at for at in _OPERANDS if node.input[at] not in model.constants]
    if len(computed) != 1:
        raise Unsupported("chooses between two computed tensors")
    (at,) = computed
    given = quantisation_of(model, node.input[at + 1], node.input[at + 2])
    choice = _Choice(
        node=node,
        nodes=[node],
        source=node.input[at],
        output=node.output[0],
        ends=(given, quantisation_of(model, node.input[7], node.input[8])),
        computed_input=at,
        constant_input=sum(_OPERANDS) - at,
    )
    return _add_where(values, model, choice)


def convert_choice(values: Values, model: Model, index: int) -> Claim | None:
    """Convert a Where between DequantizeLinear and QuantizeLinear, if possible.

    `index` is the index of QuantizeLinear in the model. Returns the claim that all results equal
    ONNX Runtime's; None if there is no Where with a constant condition and one constant operand.

    Raises
    ------
    Unsupported
        It broadcasts the computed operand.
    """
    last = model.proto.graph.node[index]
    node = model.producer(last.input[0])
    if node is None or node.op_type != "Where" or node.input[0] not in model.constants:
        return None
    computed = [at for at in (1, 2) if constant_value(model, node.input[at]) is None]
    first = model.producer(node.input[computed[0]]) if len(computed) == 1 else None
    if first is None or first.op_type != "DequantizeLinear" or not values.is_bytes(first.input[0]):
        return None
    if not values.is_bytes(last.output[0], declared=False):
        return None
    given, result = (quantisation_of(model, *[*each.input[1:], ""][:2]) for each in (first, last))
    before = [model.producer(name) for name in node.input[1:]]
    choice = _Choice(
        node=node,
        nodes=[*(each for each in before if each is not None), node, last],
        source=first.input[0],
        output=last.output[0],
        ends=(given, result),
        computed_input=computed[0],
        constant_input=3 - computed[0],
    )
    return _add_where(values, model, choice)


def _add_where(values: Values, model: Model, choice: _Choice) -> Claim:
    """Convert a choice between bytes; return its exactness: all results equal ONNX Runtime's."""
    source, made = values.known[choice.source], values.known[choice.output]
    if source.shape != made.shape:
        raise Unsupported("repeats the tensor that it chooses from")
    condition = model.constant(choice.node.input[0]).astype(bool)
    chosen = np.broadcast_to(condition == (choice.computed_input == 1), made.shape)
    ends = as_int8(choice.ends[0], source.dtype), as_int8(choice.ends[1], made.dtype)
    order = values.order_of(choice.source)
    number = values.bytes_of(choice.source, order, choice.ends[0])
    number = add_function(
        values, number, ends, _chosen_results(values, model, choice), choice.output
    )
    zeros = {choice.source: np.zeros(source.shape, source.dtype)}
    others = bytes_as_int8(run_alone(model.proto, choice.nodes, zeros, choice.output, made.dtype))
    parts = chosen.transpose(order), others.transpose(order)
    values.hold(choice.output, order, _add_choice(values, number, parts, ends[1], choice.output))
    return Claim(unit="bytes", reachable=256, differing=0)


def _chosen_results(values: Values, model: Model, choice: _Choice) -> Array:
    """Return ONNX Runtime's results, int8 (256,), where the computed operand is chosen.

    They are in ascending order of the operand's byte.
    """
    import onnx

    alone, condition = onnx.NodeProto(), "chosen"
    alone.CopyFrom(choice.node)
    alone.input[0] = condition
    every = every_byte(values.known[choice.source].dtype)
    other = choice.node.input[choice.constant_input]
    numbers = constant_value(model, other)
    assert numbers is not None
    inputs = {
        condition: np.full(every.shape, choice.computed_input == 1),
        choice.source: every,
        other: numbers.reshape(-1)[:1],
    }
    nodes = [alone if node is choice.node else node for node in choice.nodes]
    nodes = [node for node in nodes if other not in node.output]
    dtype = values.known[choice.output].dtype
    return bytes_as_int8(run_alone(model.proto, nodes, inputs, choice.output, dtype))


def _add_choice(
    values: Values,
    number: int,
    mask_and_constants: tuple[Array, Array],
    scale: Quantisation,
    name: str,
) -> int:
    """Add operators that choose between tensor `number` and constants; return the result's number.

    `mask_and_constants` is the mask of elements that are taken from the tensor, and the constants
    for the others; `scale` is the quantisation of tensor, constants and result. Returns the tensor
    number of the result, which is called `name`.
    """
    zero = np.int8(scale.zero_point[0])
    factors = np.ascontiguousarray(mask_and_constants[0]).astype(np.int8)
    addends = np.ascontiguousarray(np.where(mask_and_constants[0], zero, mask_and_constants[1]))
    unit = Quantisation(scale=(1.0,), zero_point=(0,))
    for op, data, own in ((Op.MUL, factors, unit), (Op.ADD, addends, scale)):
        operands = [number, values.constant(data, f"{name} {op.name}", own)]
        number = values.add_operator(op, operands, data.shape, scale, name, Arithmetic())
    return number
