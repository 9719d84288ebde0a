"""Operators between DequantizeLinear and QuantizeLinear that map each byte to a byte.

ONNX Runtime leaves most functions of quantised tensors in floating point: Tanh, HardSwish, GELU.
Together, the operators from a tensor of bytes to the QuantizeLinear are a function of 256 values.
"""

from typing import Any

import numpy as np

from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.moves import MOVES
from matloom.frontend.onnx.quantised import Model, quantisation_of
from matloom.frontend.onnx.unary import convert_chain
from matloom.frontend.onnx.values import FileValue, Values, as_int8
from matloom.ir.graph import Quantisation

#: Element-wise operators that map each byte to a byte if all operands but one have one element.
ELEMENTWISE = frozenset(
    {
        *("Abs", "Add", "Ceil", "Celu", "Clip", "Cos", "Div", "Elu", "Erf", "Exp", "FastGelu"),
        *("Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Max"),
        *("Min", "Mish", "Mul", "Neg", "PRelu", "Pow", "QuickGelu", "Reciprocal", "Relu", "Round"),
        *(
            "Selu",
            "Sigmoid",
            "Sign",
            "Sin",
            "Softplus",
            "Softsign",
            "Sqrt",
            "Sub",
            "Swish",
            "Tan",
            "Tanh",
        ),
        "ThresholdedRelu",
    }
)


def convert_function(values: Values, model: Model, index: int) -> Claim | None:
    """Replace all operators from bytes to a QuantizeLinear by one function of a byte, if possible.

    `index` is the index of the QuantizeLinear in the model. Returns how many results can differ
    from ONNX Runtime's; None if the operators read several tensors, or none is element-wise.

    Raises
    ------
    Unsupported
        A result depends on more than one byte.
    """
    node = model.proto.graph.node[index]
    nodes = _operators_between(model, index)
    sources = {
        tuple(each.input)
        for each in nodes
        if each.op_type == "DequantizeLinear" and each.input[0] not in model.constants
    }
    if len(sources) != 1 or all(each.op_type not in ELEMENTWISE for each in nodes):
        return None
    names = [*sources.pop(), ""], [*node.input, ""]
    source, made = names[0][0], node.output[0]
    if not values.is_bytes(source) or not values.is_bytes(made, declared=False):
        return None
    if values.known[source].shape != values.known[made].shape:
        return None
    given, result = (quantisation_of(model, *side[1:3]) for side in names)
    return convert_chain(values, model, nodes, (source, given), (made, result))


def convert_move(values: Values, model: Model, index: int) -> bool:
    """Convert an operator that moves elements between DequantizeLinear and QuantizeLinear.

    The converted operator moves bytes instead of floats. If DequantizeLinear and QuantizeLinear
    have different quantisations, a function from bytes to bytes precedes it. This changes no
    result: moves do not depend on values, and the function keeps the order of values, on which
    maxima depend. `index` is the index of QuantizeLinear. Returns False if another operator
    precedes it.
    """
    node = model.proto.graph.node[index]
    move = model.producer(node.input[0])
    before = None if move is None or not move.input else model.producer(move.input[0])
    if move is None or before is None or before.op_type != "DequantizeLinear":
        return False
    source, made = before.input[0], node.output[0]
    if move.op_type not in MOVES or not values.is_bytes(source):
        return False
    if not values.is_bytes(made, declared=False):
        return False
    input_quantisation = quantisation_of(model, *[*before.input[1:], ""][:2])
    result = quantisation_of(model, *[*node.input[1:], ""][:2])
    # ONNX Runtime turns some int8 into uint8, which keeps differences.
    dtypes = values.known[source].dtype, values.known[made].dtype
    same = as_int8(input_quantisation, dtypes[0]) == as_int8(result, dtypes[1])
    steps, scale = np.arange(-255, 256, dtype=np.float32), np.float32(input_quantisation.scale[0])
    with np.errstate(all="ignore"):
        kept = np.array_equal(np.rint(steps * scale / scale), steps)
    if not (same and kept):
        source = _requantise(values, model, (before, node), (input_quantisation, result))
    else:
        values.bytes_of(source, values.order_of(source), input_quantisation)
    MOVES[move.op_type](values, model, move, source, made)
    return True


def _requantise(
    values: Values,
    model: Model,
    nodes: tuple[Any, Any],
    quantisations: tuple[Quantisation, Quantisation],
) -> str:
    """Convert bytes between the quantisations of two `nodes`; return the result's name.

    `nodes` are DequantizeLinear and QuantizeLinear, `quantisations` their quantisations. Returns
    the name of the result, a value that the file does not have.
    """
    import onnx

    before, after = nodes
    source, made = before.input[0], after.output[0]
    name, direct = f"{source} for {made}", onnx.NodeProto()
    direct.CopyFrom(after)
    direct.input[0], direct.output[0] = before.output[0], name
    values.known[name] = FileValue(values.known[source].shape, values.known[made].dtype)
    convert_chain(
        values, model, [before, direct], (source, quantisations[0]), (name, quantisations[1])
    )
    values.declare(name, quantisations[1])
    return name


def _operators_between(model: Model, index: int) -> list[Any]:
    """Return the operator `index` and its predecessors up to DequantizeLinear, in model order.

    The result is empty if a predecessor is not element-wise, or reads a constant of several
    elements.
    """
    nodes, found, pending = (
        model.proto.graph.node,
        {index},
        list(model.proto.graph.node[index].input[:1]),
    )
    while pending:
        name = pending.pop()
        if name in model.constants:
            if model.constant(name).size != 1:
                return []
            continue
        place = model.producers.get(name)
        if place is None or nodes[place].op_type not in ELEMENTWISE | {"DequantizeLinear"}:
            return []
        if place not in found:
            found.add(place)
            ends = nodes[place].op_type == "DequantizeLinear"
            held = nodes[place].input[0] in model.constants
            pending += [each for each in nodes[place].input if each and (not ends or held)]
    return [nodes[place] for place in sorted(found)]
