"""Reads quantised layers of ONNX models: QLinearConv, QLinearMatMul and com.microsoft.QGemm."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.ir.graph import Array, Quantisation


class Model:
    """A ModelProto with its constants as arrays.

    Members
    -------
    producers:
        Index of the operator that makes each value, by the value's name.
    opset:
        Version of ONNX's operator set.
    constants:
        Names of all constants.
    """

    def __init__(self, proto: Any) -> None:
        from onnx import numpy_helper

        self.proto, graph = proto, proto.graph
        self._protos = {each.name: each for each in graph.initializer}
        self._arrays: dict[str, Array] = {}
        self._array = numpy_helper.to_array
        self.producers = {
            name: at for at, node in enumerate(graph.node) for name in node.output if name
        }
        self.opset = max(
            (each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")),
            default=1,
        )
        self.constants = {*self._protos, *(each.values.name for each in graph.sparse_initializer)}

    def constant(self, name: str) -> Array:
        """Return the array of a constant; raise `Unsupported` if the value is computed."""
        if name not in self._protos:
            raise Unsupported(f"has {name!r} computed, which the engine must know")
        if name not in self._arrays:
            self._arrays[name] = self._array(self._protos[name])
        return self._arrays[name]

    def producer(self, name: str) -> Any:
        """Return the operator that makes a value; None for inputs, constants and unknown names."""
        place = self.producers.get(name)
        return None if place is None else self.proto.graph.node[place]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A quantised layer with constant weights.

    Members
    -------
    node:
        The operator, for its attributes.
    data, output:
        Names of the input and the output.
    input_quantisation, output_quantisation:
        Quantisations of the input and the output, in the file's types.
    weights:
        Integers minus their zero points, as int8.
    weight_scale:
        One scale, or one for each output channel.
    bias:
        Integers in units of the input scale times the weight scale; None for no bias.
    """

    node: Any
    data: str
    input_quantisation: Quantisation
    weights: Array
    weight_scale: Array
    bias: Array | None
    output: str
    output_quantisation: Quantisation


def attribute(node: Any, name: str, default: Any) -> Any:
    """Return an attribute of an operator; `default` if the operator does not have it."""
    import onnx

    for item in node.attribute:
        if item.name == name:
            return onnx.helper.get_attribute_value(item)
    return default


def quantisation_of(model: Model, scale: str, zero: str) -> Quantisation:
    """Return the quantisation of a value whose scale and zero point have these names.

    An empty `zero` means a zero point of 0.

    Raises
    ------
    Unsupported
        One of the two is computed or has several elements, the scale is not float32, or the zero
        point is neither int8 nor uint8.
    """
    scales = model.constant(scale)
    zeros = model.constant(zero) if zero else np.zeros(1, np.uint8)
    if scales.size != 1 or zeros.size != 1:
        raise Unsupported(f"has {scales.size} scales for one of its values")
    if scales.dtype != np.float32 or zeros.dtype not in (np.int8, np.uint8):
        raise Unsupported(f"has values of {zeros.dtype} with scales of {scales.dtype}")
    return Quantisation(scale=(float(scales.item()),), zero_point=(int(zeros.item()),))


def layer_of(model: Model, node: Any) -> Layer | None:
    """Return a quantised operator as a layer; None for other operators, or if inputs are missing.

    Raises
    ------
    Unsupported
        The engine does not support this kind of quantised layer.
    """
    names = list(node.input)
    if node.op_type in ("QLinearConv", "QLinearMatMul") and len(names) >= 8:
        bias = names[8] if node.op_type == "QLinearConv" and len(names) > 8 else ""
        return _layer(model, node, names[:3], [*names[3:6], bias], names[6:8])
    if node.op_type == "QGemm" and len(names) == 9:
        return _layer(model, node, names[:3], [*names[3:6], names[6]], names[7:9])
    return None


def _layer(
    model: Model, node: Any, data: Sequence[str], constants: Sequence[str], output: Sequence[str]
) -> Layer:
    """Return a quantised layer, given names of its tensors, their scales and zero points."""
    weights, scale = model.constant(constants[0]), model.constant(constants[1])
    return Layer(
        node=node,
        data=data[0],
        input_quantisation=quantisation_of(model, data[1], data[2]),
        weights=_subtract_zero_points(node, weights, model.constant(constants[2])),
        weight_scale=scale,
        bias=model.constant(constants[3]) if constants[3] else None,
        output=node.output[0],
        output_quantisation=quantisation_of(model, output[0], output[1]),
    )


def _subtract_zero_points(node: Any, weights: Array, zeros: Array) -> Array:
    """Return weights minus their zero points, as int8.

    `zeros` is one zero point, or one for each output channel.

    Raises
    ------
    Unsupported
        A difference does not fit int8.
    """
    wide = zeros.astype(np.int64).reshape(-1)
    axis = 0 if "Conv" in node.op_type else -1
    if "Gemm" in node.op_type and attribute(node, "transB", 0):
        axis = 0
    shape = [1] * weights.ndim
    shape[axis] = wide.size
    centred: Array = weights.astype(np.int64) - wide.reshape(shape)
    if centred.min(initial=0) < -128 or centred.max(initial=0) > 127:
        raise Unsupported("has weights that do not fit int8 without their zero point")
    return centred.astype(np.int8)
