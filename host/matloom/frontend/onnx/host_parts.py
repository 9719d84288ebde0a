"""Parts of quantised layers that ONNX Runtime runs, with channels last as on the engine.

Such a part consists of operators appended to the model, from which it is cut for ONNX Runtime; no
operator of the file is changed. A value that the engine computes appears as the output of a
Transpose. This Transpose never runs; it only declares the value's name and order of axes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.quantised import Model, attribute, quantisation_of
from matloom.frontend.onnx.values import LAST, FileValue, Values, in_file_order
from matloom.frontend.opaque import OpaqueOperator
from matloom.ir.attributes import ONNX_INTERPRETERS

_ORT_DOMAIN = "com.microsoft"
#: Operators of ONNX Runtime that take channels last.
_CHANNELS_LAST_OPERATORS = ("QLinearAveragePool", "QLinearConv", "QLinearGlobalAveragePool")
#: Maximum share of unproven channels. If more are unproven, ONNX Runtime runs the whole layer.
_MAX_UNPROVEN_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class OnnxPart:
    """Operators appended to a model, which ONNX Runtime runs one after the other.

    `reason` says why ONNX Runtime runs them; it follows an operator's name in messages.
    """

    values: Values
    model: Model
    reason: str

    def permute(self, name: str, axes: tuple[int, ...] = LAST) -> str:
        """Return the name of a value that equals `name` with its axes in the order `axes`."""
        value = self.values.known[name]
        shape = tuple(value.shape[axis] for axis in axes)
        output = self.append("Transpose", [name], shape, value.dtype, perm=list(axes))
        self.values.hold(output, in_file_order(len(shape)), self.values.bytes_of(name, axes))
        # Added at once: nothing may come between the operators that run.
        self.values.file_tensor(output)
        return output

    def run(
        self,
        op: str,
        inputs: Sequence[str],
        shape: tuple[int, ...] | None,
        dtype: str,
        **attributes: Any,
    ) -> str:
        """Append an operator that ONNX Runtime runs; return the name of its output.

        `shape` and `dtype` describe the output; an output without a shape is internal to the part.
        """
        output = self.append(op, inputs, shape, dtype, **attributes)
        constants = {*self.model.constants}
        numbers = [
            self.values.file_tensor(name)
            if name in self.values.known and name not in constants
            else self.values.numbers[name]
            for name in inputs
            if name
        ]
        self.values.operators.append(
            OpaqueOperator(
                name=op,
                index=len(self.model.proto.graph.node) - 1,
                inputs=tuple(numbers),
                outputs=(self.values.opaque_output(output),),
                reason=f"{op} {self.reason}",
                interpreters=ONNX_INTERPRETERS,
            )
        )
        return output

    def constant(self, array: Any) -> str:
        """Append a constant; return its name."""
        from onnx import numpy_helper

        return self.run("Constant", [], None, "", value=numpy_helper.from_array(array))

    def gather_channels(self, name: str, channels: str, axis: int) -> str:
        """Append a Gather of some channels of a constant; return the name of its output.

        `channels` is the name of a constant with indices along `axis`. A constant of one element,
        which applies to all channels, and an absent value (an empty name) are returned unchanged.
        """
        if not name or self.model.constant(name).size == 1:
            return name
        return self.run("Gather", [name, channels], None, "", axis=axis)

    def append(
        self,
        op: str,
        inputs: Sequence[str],
        shape: tuple[int, ...] | None,
        dtype: str,
        **attributes: Any,
    ) -> str:
        """Append an operator to the model without running it; return the name of its output."""
        import onnx

        graph, imports = self.model.proto.graph, self.model.proto.opset_import
        output = f"{op} apart {len(graph.node)}"
        domain = _ORT_DOMAIN if op in (*_CHANNELS_LAST_OPERATORS, "QGemm") else ""
        if domain and all(each.domain != domain for each in imports):
            imports.append(onnx.helper.make_opsetid(domain, 1))
        graph.node.append(onnx.helper.make_node(op, inputs, [output], domain=domain, **attributes))
        self.values.numbers[output] = len(self.values.numbers)
        if shape is not None:
            kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            graph.value_info.append(onnx.helper.make_tensor_value_info(output, kind, shape))
            self.values.known[output] = FileValue(shape, dtype)
        return output


def run_channels_last(values: Values, model: Model, node: Any, reason: str) -> bool:
    """Leave an operator on images to ONNX Runtime, with channels last, if possible.

    Returns whether it is possible; `reason` says why ONNX Runtime runs the operator.
    """
    source, output_name = node.input[0], node.output[0]
    ends = values.known.get(source), values.known.get(output_name)
    if node.op_type not in _CHANNELS_LAST_OPERATORS or any(each is None for each in ends):
        return False
    if any(len(each.shape) != len(LAST) for each in ends if each is not None):
        return False
    ready = LAST in values.known[source].held
    ready |= node.op_type == "QLinearConv" and values.is_bytes(source)
    if not ready or attribute(node, "channels_last", 0):
        return False
    part = OnnxPart(values=values, model=model, reason=reason)
    output = values.known[output_name]
    inputs = [part.permute(source), *node.input[1:]]
    shape = tuple(output.shape[axis] for axis in LAST)
    last = part.run(node.op_type, inputs, shape, output.dtype, **_channels_last_attributes(node))
    _set_output(part, node, last)
    return True


def split_channels(values: Values, model: Model, node: Any, claim: Claim) -> Claim:
    """Let ONNX Runtime run those channels of a layer whose results could differ on the engine.

    The engine still computes all channels; ONNX Runtime's results replace those of unproven ones.
    Returns the claim for the results after the replacement.

    Raises
    ------
    Unsupported
        The layer is another operator, a convolution of other tensors than images or one with groups
        of several channels, or no channel or more than half of them are unproven.
    """
    channels, rank = claim.unproven, len(values.known[node.output[0]].shape)
    few = 0 < len(channels) <= _MAX_UNPROVEN_SHARE * claim.channels
    split = {"QLinearConv": _append_unproven_channels} if rank == len(LAST) else {}
    split |= dict.fromkeys(("QGemm", "QLinearMatMul"), _append_unproven_columns)
    if node.op_type not in split or not few:
        raise Unsupported(str(claim))
    reason = f"computes {len(channels)} of {claim.channels} channels, which are not proven equal"
    part = OnnxPart(values=values, model=model, reason=reason)
    output = values.known[node.output[0]]
    axes = LAST if node.op_type == "QLinearConv" else in_file_order(rank)
    engine = part.permute(node.output[0], axes)
    some = split[node.op_type](part, node, claim)
    places = np.arange(claim.channels)
    places[list(channels)] = claim.channels + np.arange(len(channels))
    both = part.run("Concat", [engine, some], None, output.dtype, axis=rank - 1)
    shape = tuple(output.shape[axis] for axis in axes)
    last = part.run("Gather", [both, part.constant(places)], shape, output.dtype, axis=rank - 1)
    _set_output(part, node, last, axes)
    return replace(claim, differing=0, affected=0, run_by_onnxruntime=len(channels), unproven=())


def _append_unproven_channels(part: OnnxPart, node: Any, claim: Claim) -> str:
    """Append a convolution of the unproven channels, channels last; return its output's name."""
    channels, names = claim.unproven, [*node.input, ""]
    given = part.permute(node.input[0])
    picks = part.constant(np.array(channels, np.int64))
    attributes = _channels_last_attributes(node)
    if attributes.get("group", 1) != 1:
        if attributes["group"] != claim.channels:
            raise Unsupported(str(claim))
        attributes["group"] = len(channels)
        given = part.run("Gather", [given, picks], None, "", axis=3)
    weights, scale, zero = (part.gather_channels(name, picks, 0) for name in names[3:6])
    inputs = [given, *names[1:3], weights, scale, zero, *names[6:8]]
    if names[8]:
        inputs.append(part.gather_channels(names[8], picks, 0))
    dtype = part.values.known[node.output[0]].dtype
    return part.run("QLinearConv", inputs, None, dtype, **attributes)


def _append_unproven_columns(part: OnnxPart, node: Any, claim: Claim) -> str:
    """Append a matrix product of the unproven columns; return the name of its output."""
    names = list(node.input)
    given = part.permute(names[0], in_file_order(len(part.values.known[names[0]].shape)))
    picks = part.constant(np.array(claim.unproven, np.int64))
    rows = node.op_type == "QGemm" and attribute(node, "transB", 0)
    held = [part.gather_channels(names[3], picks, 0 if rows else 1)]
    # One value per column, or one for all.
    held += [
        part.gather_channels(name, picks, 0)
        for name in names[4 : 7 if node.op_type == "QGemm" else 6]
    ]
    inputs = [given, *names[1:3], *held, *names[3 + len(held) :]]
    dtype = part.values.known[node.output[0]].dtype
    return part.run(node.op_type, inputs, None, dtype, **_plain_attributes(node))


def _channels_last_attributes(node: Any) -> dict[str, Any]:
    """Return a node's attributes for its variant with channels last, by name."""
    return {**_plain_attributes(node), "channels_last": 1}


def _plain_attributes(node: Any) -> dict[str, Any]:
    """Return a node's attributes as Python values, by name."""
    import onnx

    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


#: Index of the input that holds the output's scale.
_SCALES = {"QLinearConv": 6, "QLinearMatMul": 6, "QGemm": 7}


def _set_output(part: OnnxPart, node: Any, value_name: str, axes: tuple[int, ...] = LAST) -> None:
    """Register a value as an operator's output; `axes` are its axes in the tensor's order."""
    at = _SCALES.get(node.op_type, 3)
    result = quantisation_of(part.model, node.input[at], "".join(node.input[at + 1 : at + 2]))
    rank = len(part.values.known[value_name].shape)
    number = part.values.bytes_of(value_name, in_file_order(rank), result)
    part.values.hold(node.output[0], axes, number)
