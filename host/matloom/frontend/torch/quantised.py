"""Converts PyTorch's PT2E quantisation operators (`quantized_decomposed`) to ONNX."""

from collections.abc import Callable
from typing import Any

import numpy as np

from matloom.frontend.torch.writer import Call, Value, Writer

Handler = Callable[[Writer, Call], Any]


def _scale_and_zero_point(writer: Writer, call: Call, dtype: str) -> list[str]:
    """Return the names of the scale and the zero point of a call, in the types that ONNX requires.

    `dtype` is the type of the quantised value.
    """
    channels = "scales" in call.arguments
    scale = call["scales" if channels else "scale"]
    zero = call.get("zero_points" if channels else "zero_point")
    if zero is None:
        zero = np.zeros(scale.shape)
    if isinstance(zero, Value) and zero.data is not None:
        zero = zero.data
    if isinstance(scale, Value) and scale.data is not None:
        scale = scale.data
    return [writer.operand(scale, "float32"), writer.operand(zero, dtype)]


def _axis_attribute(call: Call) -> dict[str, Any]:
    """Return the attribute `axis` if the call quantises along one."""
    return {"axis": call["axis"]} if "axis" in call.arguments else {}


def _write_quantise(writer: Writer, call: Call) -> str:
    """Write QuantizeLinear, and a Clip if the limits are narrower than the type."""
    result = writer.add(
        "QuantizeLinear",
        call["input"].name,
        *_scale_and_zero_point(writer, call, call.dtype),
        **_axis_attribute(call),
    )
    limits = np.iinfo(call.dtype)
    ends = call["quant_min"], call["quant_max"]
    if ends == (limits.min, limits.max):
        return result
    return writer.add("Clip", result, *(writer.constant(end, call.dtype) for end in ends))


def _write_dequantise(writer: Writer, call: Call) -> str:
    """Write DequantizeLinear, and keep its constant scales for later operators."""
    data = call["input"]
    parameters = _scale_and_zero_point(writer, call, data.dtype)
    result = writer.add("DequantizeLinear", data.name, *parameters, **_axis_attribute(call))
    if parameters[0] in writer.constants:
        writer.scales[result] = writer.constants[parameters[0]]
    return result


QUANTISED: dict[str, Handler] = {
    "dequantize_per_channel": _write_dequantise,
    "dequantize_per_tensor": _write_dequantise,
    "quantize_per_channel": _write_quantise,
    "quantize_per_tensor": _write_quantise,
}
