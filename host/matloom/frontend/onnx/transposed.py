"""Converts quantised transposed convolutions to TRANSPOSE_CONV.

ONNX Runtime has no integer form of ConvTranspose: it computes the operator in floats between
DequantizeLinear and QuantizeLinear.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.transposed import transposed_attributes, whole_weights
from matloom.frontend.onnx.quantised import Layer, Model, quantisation_of
from matloom.frontend.onnx.values import LAST, LINE, Order, Values, as_int8
from matloom.frontend.onnx.weighted import layer_multipliers, unit_scale
from matloom.ir.graph import Array, Op

#: Axis of the output channels in the weights of ConvTranspose.
_OUTPUTS = 1


def convert_transposed(values: Values, model: Model, index: int) -> Claim | None:
    """Convert a ConvTranspose between DequantizeLinear and QuantizeLinear, if possible.

    `index` is the index of QuantizeLinear in the model. Returns how many sums can differ from ONNX
    Runtime's; None if there is no such ConvTranspose.

    Raises
    ------
    Unsupported
        The engine does not support such an operator.
    """
    layer = _find_layer(values, model, model.proto.graph.node[index])
    if layer is None:
        return None
    node = FileNode.from_proto(layer.node, model.opset)
    weights = whole_weights(layer.weights, int(node.options.get("group", 1)))
    number, order = _image_tensor(values, layer)
    image, window = values.tensors[number].shape, (weights.shape[2], weights.shape[3])
    attributes = transposed_attributes(node, (image[1], image[2]), window)
    filters = np.ascontiguousarray(weights.transpose(1, 2, 3, 0))
    channels = len(filters)
    bias = np.zeros(channels, np.int32) if layer.bias is None else layer.bias.reshape(-1)
    rows = filters.reshape(channels, -1)
    scale, claim = layer_multipliers(layer, rows, bias.astype(np.int64), values)
    name = layer.output
    inputs = [
        number,
        values.constant(filters, f"{name} weights", unit_scale(layer)),
        values.constant(bias, f"{name} bias"),
        values.constant(scale, f"{name} multipliers"),
    ]
    shape = tuple(values.known[name].shape[axis] for axis in order)
    whole = (image[0], *attributes.size, channels)
    signed = as_int8(layer.output_quantisation, values.known[name].dtype)
    made = values.add_operator(Op.TRANSPOSE_CONV, inputs, whole, signed, name, attributes)
    if shape != whole:
        made = values.add_operator(Op.RESHAPE, [made], shape, signed, name)
    values.hold(name, order, made)
    return replace(claim, floating=True)


def _image_tensor(values: Values, layer: Layer) -> tuple[int, Order]:
    """Return the tensor number of a layer's input as an image, and the input's order of axes.

    An input with one spatial axis becomes an image of one row.
    """
    order = LINE if len(values.known[layer.data].shape) == len(LINE) else LAST
    number = values.bytes_of(layer.data, order, layer.input_quantisation)
    if order == LAST:
        return number, order
    images, positions, channels = values.tensors[number].shape
    shape = images, 1, positions, channels
    quantisation = values.tensors[number].quantisation
    return values.add_operator(Op.RESHAPE, [number], shape, quantisation, layer.data), order


def _find_layer(values: Values, model: Model, quantise_node: Any) -> Layer | None:
    """Return the layer of a ConvTranspose before the QuantizeLinear `quantise_node`.

    The result is None if another operator is there, one of its inputs does not come from
    DequantizeLinear, weights or bias are computed, or the input or the output is not of bytes.
    """
    node = model.producer(quantise_node.input[0])
    if node is None or node.op_type != "ConvTranspose":
        return None
    before = [model.producer(name) for name in node.input if name]
    if any(each is None or each.op_type != "DequantizeLinear" for each in before):
        return None
    data, held, *biases = ([*each.input, ""][:3] for each in before if each is not None)
    constant = all(name in model.constants for names in (held, *biases) for name in names if name)
    if not constant or not values.is_bytes(data[0]):
        return None
    if not values.is_bytes(quantise_node.output[0], declared=False):
        return None
    given = quantisation_of(model, data[1], data[2])
    scale = model.constant(held[1])
    return Layer(
        node=node,
        data=data[0],
        input_quantisation=given,
        weights=_weights(model, held),
        weight_scale=scale,
        bias=_bias(model, biases[0], given.scale[0] * scale) if biases else None,
        output=quantise_node.output[0],
        output_quantisation=quantisation_of(model, *[*quantise_node.input[1:], ""][:2]),
    )


def _weights(model: Model, names: list[str]) -> Array:
    """Return weights (inputs, outputs, rows, columns) minus their zero points, as int8.

    `names` are those of the weights, their scale and their zero point.

    Raises
    ------
    Unsupported
        The window has more than two dimensions, or a difference does not fit int8.
    """
    weights = model.constant(names[0])
    zeros = model.constant(names[2]) if names[2] else np.zeros(1, weights.dtype)
    if weights.ndim == len(LINE):
        weights = weights[:, :, np.newaxis]
    if weights.ndim != len(LAST):
        raise Unsupported(f"has a window of {weights.ndim - 2} dimensions")
    shape = [1] * weights.ndim
    shape[_OUTPUTS] = zeros.size
    centred: Array = weights.astype(np.int64) - zeros.astype(np.int64).reshape(shape)
    if centred.min(initial=0) < -128 or centred.max(initial=0) > 127:
        raise Unsupported("has weights that do not fit int8 without their zero point")
    return centred.astype(np.int8)


def _bias(model: Model, names: list[str], scale: Array) -> Array:
    """Return a bias as int32; `names` has the names of bias, scale and zero point.

    Raises
    ------
    Unsupported
        The scale of the bias is not `scale`, that of the products.
    """
    data, given = model.constant(names[0]), model.constant(names[1])
    if data.dtype != np.int32 or not np.allclose(given, scale, rtol=1e-6, atol=0):
        raise Unsupported("has a bias of another scale than its products")
    return data
