"""Converts QLinearConcat: requantises each input to the output's scale, then joins the results."""

from typing import Any

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.quantised import Model, attribute, quantisation_of
from matloom.frontend.onnx.unary import add_function, table_of
from matloom.frontend.onnx.values import Values, as_int8
from matloom.ir.attributes import Axis
from matloom.ir.graph import Op


def convert_join(values: Values, model: Model, node: Any) -> Claim:
    """Convert a QLinearConcat; return its exactness: all results equal ONNX Runtime's.

    Raises
    ------
    Unsupported
        An input is constant, or no operator of the graph can requantise it exactly.
    """
    import onnx

    names, output_name = list(node.input), node.output[0]
    result, wanted = quantisation_of(model, names[0], names[1]), values.known[output_name]
    sources = names[2::3]
    if any(name in model.constants for name in sources):
        raise Unsupported("joins a constant")
    order = values.order_of(*sources)
    axis = int(attribute(node, "axis", 0)) % len(wanted.shape)
    numbers = []
    for at, name in enumerate(sources):
        input_quantisation = quantisation_of(model, *names[3 + 3 * at : 5 + 3 * at])
        dtypes = values.known[name].dtype, wanted.dtype
        # A join of this input alone, along the only axis of the bytes.
        alone = onnx.helper.make_node(
            node.op_type,
            [*names[:2], *names[2 + 3 * at : 5 + 3 * at]],
            [output_name],
            domain=node.domain,
            axis=0,
        )
        table = table_of(model, [alone], (name, output_name), dtypes)
        ends = as_int8(input_quantisation, dtypes[0]), as_int8(result, dtypes[1])
        number = values.bytes_of(name, order, input_quantisation)
        scaled = add_function(values, number, ends, table, f"{output_name}, part {at}")
        numbers.append(values.read_as(scaled, ends[1], scaled=True))
    shape = tuple(wanted.shape[each] for each in order)
    signed = as_int8(result, wanted.dtype)
    attributes = Axis(axis=order.index(axis))
    values.hold(
        output_name,
        order,
        values.add_operator(Op.CONCATENATION, numbers, shape, signed, output_name, attributes),
    )
    return Claim(unit="bytes", reachable=256 * len(sources), differing=0)
