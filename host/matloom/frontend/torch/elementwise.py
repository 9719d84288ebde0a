"""Converts element-wise aten operators to ONNX."""

from collections.abc import Callable
from typing import Any

import numpy as np

from matloom.frontend.torch.writer import Call, Value, Writer

Handler = Callable[[Writer, Call], Any]

#: ONNX's names of operators on one input, by their names in aten.
_UNARY = {
    **{name: name.capitalize() for name in ("abs", "ceil", "cos", "erf", "exp", "floor", "log")},
    **{name: name.capitalize() for name in ("neg", "reciprocal", "relu", "round", "selu", "sin")},
    **{name: name.capitalize() for name in ("sigmoid", "sign", "sqrt", "tanh", "mish", "atan")},
    "bitwise_not": "Not",
    "hardswish": "HardSwish",
    "isnan": "IsNaN",
    "logical_not": "Not",
}

#: Operators that leave a tensor unchanged outside training.
_IDENTITIES: tuple[str, ...] = (
    "alias",
    "clone",
    "contiguous",
    "detach",
    "detach_",
    "dropout",
    "feature_dropout",
    "lift",
)
_IDENTITIES += ("lift_fresh", "lift_fresh_copy", "native_dropout")

_ARITHMETIC = {"mul": "Mul", "pow": "Pow", "maximum": "Max", "minimum": "Min"}
_COMPARISONS = {"eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual"}
_COMPARISONS |= {"lt": "Less"}
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


def _unary_writer(op: str) -> Handler:
    """Return a handler that writes one ONNX operator of one input."""
    return lambda writer, call: writer.add(op, call["self"].name)


def _unchanged_value(writer: Writer, call: Call) -> str:
    """Return the input's name: the operator changes nothing in inference."""
    first: Value = next(each for each in call.arguments.values() if isinstance(each, Value))
    if call.get("train", False):
        raise call.refuse("training")
    return first.name


def _arithmetic_writer(op: str) -> Handler:
    """Return a handler that writes an ONNX operator of two operands of the result's type."""

    def handler(writer: Writer, call: Call) -> str:
        """Write ONNX operator `op` for a call in PyTorch; return its output's name."""
        second = "exponent" if op == "Pow" else "other"
        inputs = [writer.operand(call[name], call.dtype) for name in ("self", second)]
        return writer.add(op, *inputs)

    return handler


def _sum_writer(op: str) -> Handler:
    """Return a handler of a sum or difference, whose second operand may have a factor."""

    def handler(writer: Writer, call: Call) -> str:
        """Write ONNX operator `op` for a call in PyTorch; return its output's name."""
        first = writer.operand(call["self"], call.dtype)
        second = writer.operand(call["other"], call.dtype)
        if call.get("alpha", 1) != 1:
            second = writer.add("Mul", second, writer.constant(call["alpha"], call.dtype))
        # rsub has its operands reversed.
        return writer.add("Sub", second, first) if op == "rsub" else writer.add(op, first, second)

    return handler


def _write_divide(writer: Writer, call: Call) -> str:
    """Write a division, rounded down if the call asks for it; return the quotient's name."""
    mode = call.get("rounding_mode")
    quotient = writer.add(
        "Div", *(writer.operand(call[name], call.dtype) for name in ("self", "other"))
    )
    if mode is None:
        return quotient
    if mode == "floor" and call.dtype.startswith("float"):
        return writer.add("Floor", quotient)
    raise call.refuse(f"rounding_mode={mode!r} of {call.dtype}")


def _comparison_writer(op: str) -> Handler:
    """Return a handler that compares operands in their common type."""

    def handler(writer: Writer, call: Call) -> str:
        """Write ONNX operator `op` for a call in PyTorch; return its output's name."""
        types = [each.dtype for each in call.arguments.values() if isinstance(each, Value)]
        common = np.result_type(*types).name
        if common.startswith("int") and isinstance(call["other"], float):
            common = "float32"
        inputs = [writer.operand(call[name], common) for name in ("self", "other")]
        return writer.add(op, *inputs)

    return handler


def _write_not_equal(writer: Writer, call: Call) -> str:
    """Write Equal and Not."""
    return writer.add("Not", _comparison_writer("Equal")(writer, call))


def _write_where(writer: Writer, call: Call) -> str:
    """Write a choice between two operands by a condition."""
    chosen = [writer.operand(call[name], call.dtype) for name in ("self", "other")]
    return writer.add("Where", call["condition"].name, *chosen)


def _write_masked_fill(writer: Writer, call: Call) -> str:
    """Write a choice between a value and the input by a mask."""
    value = writer.operand(call["value"], call.dtype)
    return writer.add("Where", call["mask"].name, value, call["self"].name)


def _clip_writer(low: str, high: str) -> Handler:
    """Return a handler of Clip; `low` and `high` name the arguments that hold the limits."""

    def handler(writer: Writer, call: Call) -> str:
        """Write a Clip for a call in PyTorch; return its output's name."""
        ends = [call.get(low), call.get(high)]
        if any(isinstance(end, Value) for end in ends):
            raise call.refuse("tensors as limits")
        names = ["" if end is None else writer.constant(end, call.dtype) for end in ends]
        return writer.add("Clip", writer.operand(call["self"], call.dtype), *names)

    return handler


def _write_relu6(writer: Writer, call: Call) -> str:
    """Write ReLU6 as Clip."""
    ends = [writer.constant(end, call.dtype) for end in (0, 6)]
    return writer.add("Clip", call["self"].name, *ends)


def _write_leaky_relu(writer: Writer, call: Call) -> str:
    """Write LeakyRelu with its slope."""
    return writer.add("LeakyRelu", call["self"].name, alpha=float(call["negative_slope"]))


def _write_elu(writer: Writer, call: Call) -> str:
    """Write Elu, without scales of its input or output."""
    if (call.get("scale", 1), call.get("input_scale", 1)) != (1, 1):
        raise call.refuse("scales")
    return writer.add("Elu", call["self"].name, alpha=float(call["alpha"]))


def _write_prelu(writer: Writer, call: Call) -> str:
    """Write PRelu; one slope per channel gets the input's axes."""
    data, slope = call["self"], call["weight"]
    if slope.shape != (1,) and data.rank > 2:
        shape = writer.integers([slope.shape[0], *[1] * (data.rank - 2)])
        return writer.add("PRelu", data.name, writer.add("Reshape", slope.name, shape))
    return writer.add("PRelu", data.name, slope.name)


def _write_gelu(writer: Writer, call: Call) -> str:
    """Write Gelu, exact or approximated by tanh."""
    return writer.add("Gelu", call["self"].name, approximate=call.get("approximate", "none"))


def _write_silu(writer: Writer, call: Call) -> str:
    """Write x * sigmoid(x)."""
    name = call["self"].name
    return writer.add("Mul", name, writer.add("Sigmoid", name))


def _write_hard_sigmoid(writer: Writer, call: Call) -> str:
    """Write HardSigmoid with PyTorch's slope of 1/6."""
    return writer.add("HardSigmoid", call["self"].name, alpha=1 / 6, beta=0.5)


def _write_softplus(writer: Writer, call: Call) -> str:
    """Write Softplus, without a factor `beta`."""
    if call.get("beta", 1) != 1:
        raise call.refuse(f"beta={call['beta']}")
    return writer.add("Softplus", call["self"].name)


def _write_inverse_root(writer: Writer, call: Call) -> str:
    """Write the reciprocal of a square root."""
    return writer.add("Reciprocal", writer.add("Sqrt", call["self"].name))


def _write_cast(writer: Writer, call: Call) -> str:
    """Write a conversion to the result's type."""
    return writer.cast(call["self"], call.dtype)


ELEMENTWISE: dict[str, Handler] = {
    **{name: _unary_writer(op) for name, op in _UNARY.items()},
    **dict.fromkeys(_IDENTITIES, _unchanged_value),
    **{name: _arithmetic_writer(op) for name, op in _ARITHMETIC.items()},
    **{name: _comparison_writer(op) for name, op in _COMPARISONS.items()},
    **{name: _arithmetic_writer(op) for name, op in _LOGICAL.items()},
    "_to_copy": _write_cast,
    "add": _sum_writer("Add"),
    "clamp": _clip_writer("min", "max"),
    "clamp_max": _clip_writer("min", "max"),
    "clamp_min": _clip_writer("min", "max"),
    "div": _write_divide,
    "elu": _write_elu,
    "gelu": _write_gelu,
    "hardsigmoid": _write_hard_sigmoid,
    "hardtanh": _clip_writer("min_val", "max_val"),
    "leaky_relu": _write_leaky_relu,
    "masked_fill": _write_masked_fill,
    "ne": _write_not_equal,
    "prelu": _write_prelu,
    "_prelu_kernel": _write_prelu,
    "relu6": _write_relu6,
    "rsqrt": _write_inverse_root,
    "rsub": _sum_writer("rsub"),
    "silu": _write_silu,
    "softplus": _write_softplus,
    "sub": _sum_writer("Sub"),
    "to": _write_cast,
    "type_as": _write_cast,
    "where": _write_where,
}
