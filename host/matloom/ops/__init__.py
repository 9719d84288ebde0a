"""Single operations on NumPy arrays, each compiled and run on a device in one call."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from matloom.arch.config import PRESETS, Config, load_config
from matloom.arch.modes import FLOAT_MODES, MAC_MODES
from matloom.device.driver import Driver
from matloom.ir.attributes import Conv2D, Padding
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.shapes import MATRIX_RANK
from matloom.ops.computed_products import batch_matmul
from matloom.ops.float_products import Epilogue, float_product
from matloom.ops.float_windows import FloatWindows
from matloom.ops.sessions import SESSIONS

__all__ = ["batch_matmul", "conv2d", "matmul"]

#: Maximum number of rows of a product per run, because EXEC counts rows in twelve bits.
_MAX_ROWS = 2048

#: Largest value of each operand format; the smallest is its negative minus 1.
_LARGEST_VALUES = {"i8": 127, "i4": 7, "i16": 2**15 - 1}

#: Largest `shift` of results that are computed from 64-bit sums.
_WIDE_SHIFT = 7

#: Dtypes accepted for each operand format; arrays are converted to the first one.
_TYPES = {"i8": ("int8",), "i4": ("int8", "int4"), "i16": ("int16",)}


def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    mode: str = "i8xi8",
    *,
    multiplier: int | Sequence[int] | None = None,
    shift: int | Sequence[int] | None = None,
    zero_point: int = 0,
    bias: npt.ArrayLike | None = None,
    input_zero_point: int = 0,
    residual: npt.ArrayLike | None = None,
    limits: tuple[float, float] = (-np.inf, np.inf),
    output: npt.DTypeLike | None = None,
    device: str | Driver = "model",
    config: Config | str | Path | None = None,
) -> Array:
    """Return the product of two matrices, of integers or of floating-point numbers.

    Integer results are exact and the same on every device: a call raises if 32-bit sums might
    overflow, and results with a scale are rounded as in TensorFlow Lite Micro::

        sums = (a - input_zero_point) @ b + bias
        clip(multiply_by_quantized_multiplier(sums, multiplier, shift) + zero_point, -128, 127)

    With ``output=np.int16`` the limits are those of 16 bits, and the dtype of `bias` selects the
    rule, as in an int16 layer of TFLite: int32 or no bias selects the rule above; int64 selects the
    rule for 64-bit sums, whose multiplier is first rounded to 15 bits (`numerics.requantize_wide`).

    The engine stores 8 or 16 bits of a result; 32-bit sums are stored as four limbs, which takes
    four POSTs (`numerics.from_limbs`). If sums might reach 2**28, the host computes them.
    `matloom.arch.numerics.quantize_multiplier` converts a real number to multiplier and shift.

    In the modes ``bf16``, ``fp16``, ``fp8_e4m3`` and ``fp8_e5m2`` the result is
    ``clip((a @ b + residual) + bias, *limits)`` in the dtype `output`, every operation in fp32,
    rounded to nearest even. Products are rounded to fp32, which only changes the largest and
    smallest bf16 products; ``config.float_rows`` of them at a time are added in a balanced tree,
    low indices first, and these sums are added one after another. The inner size is padded with +0.

    Parameters
    ----------
    a, b:
        (rows, inner) and (inner, columns), of int8. For i4 in the mode, `ml_dtypes.int4` or int8 of
        -8 to 7; for i16, int16. In a floating-point mode, its dtype (float16, or bfloat16,
        float8_e4m3fn, float8_e5m2 of ml_dtypes) or float32, which is rounded to it. `b` is compiled
        into the program, which is cached: using the same `b` again needs no compilation.
        `batch_matmul` takes another `b` in each call.
    mode:
        Number formats of `a` and `b`, which the configuration must be built with: ``i8xi8``,
        ``i8xi4``, ``i4xi4`` or ``i16xi8``, or a floating-point one. Four bits of `b` take half
        the cycles, 16 bits of `a` twice as many.
    multiplier, shift:
        Integers of 2**30 to 2**31 - 1 and of -31 to 30, one for all columns or one for each: the
        results are ``sums * multiplier * 2**(shift - 31)``. Without both, the sums are returned.
    zero_point:
        Number to add to the results, within int8; 0 for int16 results.
    bias:
        One number per column: int32, or int64 for int16 results (`shift` is then at most 7), or
        float32 in a floating-point mode.
    input_zero_point:
        The number in `a` that represents zero.
    residual:
        Array to add to the product, with the dtype `output`; only in a floating-point mode.
    limits:
        Smallest and largest result, as float8_e5m2 numbers; only in a floating-point mode.
    output:
        The result's dtype. In a floating-point mode, that of a mode, or float32 by default.
        Otherwise int32 for sums; with a multiplier int8 by default, or int16 in the mode
        ``i16xi8``.
    device:
        ``"model"``, ``"rtl"``, or a driver that is open.
    config:
        A preset, a JSON file or a Config; by default ``reference``, with the mode added if it
        lacks it. If a driver is given, its configuration is used.

    Raises
    ------
    ValueError, TypeError
        A shape, dtype, range or mode does not fit, or `b` and `bias` are so large that a sum might
        not fit 32 bits.
    """
    chosen = _choose_config(config, device, mode)
    formats = _operand_formats(mode, chosen)
    if mode in FLOAT_MODES:
        _require_no_scale(mode, multiplier, shift, zero_point, input_zero_point)
        limits = _checked_limits(limits)
        epilogue = Epilogue(
            bias=None if bias is None else np.asarray(bias),
            residual=None if residual is None else np.asarray(residual),
            low=limits[0],
            high=limits[1],
            output=np.float32 if output is None else output,
        )
        return _float_matmul(np.asarray(a), np.asarray(b), mode, epilogue, device, chosen)
    left, right = _checked_operand("a", a, 2, formats[0]), _checked_operand("b", b, 2, formats[1])
    if left.shape[1] != right.shape[0]:
        raise ValueError(
            f"a must have {right.shape[0]} columns, the number of b's rows, not {left.shape[1]}"
        )
    columns = right.shape[1]
    filters = np.ascontiguousarray(right.T).reshape(columns, 1, 1, right.shape[0])
    pieces = [
        conv2d(
            left[first : first + _MAX_ROWS].reshape(1, -1, 1, left.shape[1]),
            filters,
            mode,
            multiplier=multiplier,
            shift=shift,
            zero_point=zero_point,
            bias=bias,
            input_zero_point=input_zero_point,
            residual=residual,
            limits=limits,
            output=output,
            device=device,
            config=chosen,
        )
        for first in range(0, left.shape[0], _MAX_ROWS)
    ]
    return np.concatenate(pieces, axis=1).reshape(-1, columns)


def _float_matmul(
    left: Array,
    right: Array,
    mode: str,
    epilogue: Epilogue,
    device: str | Driver,
    config: Config,
) -> Array:
    """Check the shapes of a floating-point product, run it, and return the result."""
    for name, array in (("a", left), ("b", right)):
        if array.ndim != MATRIX_RANK or not array.size:
            raise ValueError(f"{name} must have 2 axes and an element, not shape {array.shape}")
    if left.shape[1] != right.shape[0]:
        raise ValueError(
            f"a must have {right.shape[0]} columns, the number of b's rows, not {left.shape[1]}"
        )
    shape = (left.shape[0], right.shape[1])
    for name, operand, expected in (
        ("bias", epilogue.bias, shape[1:]),
        ("residual", epilogue.residual, shape),
    ):
        if operand is not None and operand.shape != expected:
            raise ValueError(f"{name} must have the shape {expected}, not {operand.shape}")
    if epilogue.bias is not None and epilogue.bias.dtype != np.float32:
        raise TypeError(f"bias must be float32, not {epilogue.bias.dtype}")
    return float_product(left, right, mode, epilogue, device, config)


def conv2d(
    x: npt.ArrayLike,
    filters: npt.ArrayLike,
    mode: str = "i8xi8",
    *,
    multiplier: int | Sequence[int] | None = None,
    shift: int | Sequence[int] | None = None,
    zero_point: int = 0,
    bias: npt.ArrayLike | None = None,
    input_zero_point: int = 0,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    residual: npt.ArrayLike | None = None,
    limits: tuple[float, float] = (-np.inf, np.inf),
    output: npt.DTypeLike | None = None,
    device: str | Driver = "model",
    config: Config | str | Path | None = None,
) -> Array:
    """Return the 2-D convolution of `x`, as (images, rows, columns, output channels).

    In an integer mode without `multiplier` and `shift`, the results are the 32-bit sums.

    The results are as exact as those of `matmul`, and other parameters have the same meaning.
    Convolutions that do not fit the engine's fields (see `matloom explain`) are computed by the
    host, with the same result.

    In a floating-point mode, the result is that of `matmul` for a matrix with a window in each row
    and one with a filter in each column, in the order of kernel rows, kernel columns, channels.
    Each kernel row is padded with +0 to a multiple of ``config.float_rows`` numbers, as in a layer
    of a network.

    Parameters
    ----------
    x, filters:
        (images, rows, columns, channels) and (output channels, rows, columns, channels).
    stride, dilation:
        Vertical and horizontal stride and dilation.
    padding:
        Number of elements at the top, bottom, left and right, which represent zero.
    residual:
        As for `matmul`, with the shape of the result.
    """
    chosen = _choose_config(config, device, mode)
    formats = _operand_formats(mode, chosen)
    if mode in FLOAT_MODES:
        _require_no_scale(mode, multiplier, shift, zero_point, input_zero_point)
        limits = _checked_limits(limits)
        windows = FloatWindows(
            image=np.asarray(x),
            filters=np.asarray(filters),
            stride=_checked_pair("stride", stride),
            dilation=_checked_pair("dilation", dilation),
            padding=_checked_padding(padding),
            elements=chosen.float_rows,
        )
        epilogue = Epilogue(
            bias=None if bias is None else np.asarray(bias),
            residual=None if residual is None else windows.flat(np.asarray(residual)),
            low=limits[0],
            high=limits[1],
            output=np.float32 if output is None else output,
        )
        operands = windows.rows(), windows.columns()
        return _float_matmul(*operands, mode, epilogue, device, chosen).reshape(windows.shape)
    for name, value in (("zero_point", zero_point), ("input_zero_point", input_zero_point)):
        if not isinstance(value, int | np.integer):
            raise TypeError(f"{name} must be an integer, not {value!r}")
    data, weights = (
        _checked_operand("x", x, 4, formats[0]),
        _checked_operand("filters", filters, 4, formats[1]),
    )
    if data.shape[3] != weights.shape[3]:
        raise ValueError(
            f"x must have {weights.shape[3]} channels, like the filters, not {data.shape[3]}"
        )
    if residual is not None or tuple(limits) != (-np.inf, np.inf):
        raise TypeError(f"residual and limits are for floating-point modes, not for {mode}")
    scaled = multiplier is not None and shift is not None
    if not scaled and (multiplier is not None or shift is not None or zero_point):
        raise TypeError("multiplier and shift must be given together, and with a zero_point")
    result_type = _result_dtype(output, mode, scaled=scaled)
    zeros = {"input_zero_point": input_zero_point, "zero_point": zero_point}
    for name, value, kind in (
        ("input_zero_point", input_zero_point, formats[0]),
        ("zero_point", zero_point, "i16" if result_type == "int16" else "i8"),
    ):
        if kind == "i16" and value:
            raise ValueError(f"{name} must be 0 for int16, not {value}")
        largest = _LARGEST_VALUES[kind]
        if not -largest - 1 <= value <= largest:
            raise ValueError(f"{name} must be {-largest - 1} to {largest}, not {value}")
    sums = _checked_bias(
        bias, weights.shape[0], ("int32", "int64") if result_type == "int16" else ("int32",)
    )
    _require_small_sums(weights, sums, input_zero_point, _LARGEST_VALUES[formats[0]])
    scales: tuple[float, ...] | None = None
    if multiplier is not None and shift is not None:
        max_shift = _WIDE_SHIFT if sums.dtype == np.int64 else 30
        scales = _scales(multiplier, shift, len(sums), max_shift)
    attributes = Conv2D(
        stride=_checked_pair("stride", stride),
        dilation=_checked_pair("dilation", dilation),
        padding=_checked_padding(padding),
        mode=mode,
    )
    graph = _graph(data, weights, sums, scales, zeros, attributes, result_type)
    result: Array = SESSIONS.find(graph, chosen, device).run(data)
    return result


def _require_no_scale(
    mode: str,
    multiplier: int | Sequence[int] | None,
    shift: int | Sequence[int] | None,
    zero_point: int,
    input_zero_point: int,
) -> None:
    """Raise `TypeError` if an argument for integers was given in a floating-point mode."""
    for name, value in (
        ("multiplier", multiplier is not None),
        ("shift", shift is not None),
        ("zero_point", zero_point != 0),
        ("input_zero_point", input_zero_point != 0),
    ):
        if value:
            raise TypeError(f"{name} must go with a mode of integers, not {mode}")


def _checked_limits(limits: tuple[float, float]) -> tuple[float, float]:
    """Return both limits as floats; raise `ValueError` unless they are two numbers in order."""
    pair = np.asarray(limits)
    if pair.shape != (2,) or pair.dtype.kind not in "iuf" or pair[0] > pair[1]:
        raise ValueError(f"limits must be two numbers in ascending order, not {limits!r}")
    return float(pair[0]), float(pair[1])


def _choose_config(config: Config | str | Path | None, device: str | Driver, mode: str) -> Config:
    """Return the driver's configuration, the given one, or ``reference`` with the mode added."""
    if isinstance(device, Driver):
        return device.config
    if config is not None:
        return load_config(config)
    usual = PRESETS["reference"]
    lacks = mode in MAC_MODES and mode not in usual.mac_modes
    return replace(usual, mac_modes=(*usual.mac_modes, mode)) if lacks else usual


def _operand_formats(mode: str, config: Config) -> tuple[str, str]:
    """Return both operands' formats in a mode; raise `ValueError` if the configuration lacks it."""
    if mode not in config.mac_modes:
        built = ", ".join(config.mac_modes)
        raise ValueError(f"mode must be one that the configuration has ({built}), not {mode!r}")
    left, _, right = mode.partition("x")
    return left, right


def _checked_operand(name: str, array: npt.ArrayLike, axes: int, format_name: str) -> Array:
    """Return an operand as an array of the dtype that stores its format, after checking it.

    Raises `TypeError` for a wrong dtype, and `ValueError` for a wrong shape or value.
    """
    operand = np.asarray(array)
    allowed = _TYPES[format_name]
    if operand.dtype.name not in allowed:
        raise TypeError(f"{name} must be {' or '.join(allowed)}, not {operand.dtype}")
    if operand.ndim != axes or not operand.size:
        raise ValueError(f"{name} must have {axes} axes and an element, not shape {operand.shape}")
    operand = operand.astype(allowed[0])
    largest = _LARGEST_VALUES[format_name]
    if operand.max() > largest or operand.min() < -largest - 1:
        wrong = operand[(operand > largest) | (operand < -largest - 1)].flat[0]
        raise ValueError(
            f"{name} must be {-largest - 1} to {largest} in {format_name}, not {wrong}"
        )
    return operand


def _result_dtype(requested: npt.DTypeLike | None, mode: str, *, scaled: bool) -> str:
    """Return the dtype of integer results; raise `ValueError` if they cannot be `requested`."""
    allowed: tuple[str, ...] = ("int32",)
    if scaled:
        allowed = ("int8", "int16") if mode == "i16xi8" else ("int8",)
    name = allowed[0] if requested is None else np.dtype(requested).name
    if name not in allowed:
        scale = "with" if scaled else "without"
        raise ValueError(
            f"output must be {' or '.join(allowed)} in {mode} {scale} a multiplier, not {name}"
        )
    return name


def _checked_bias(bias: npt.ArrayLike | None, channels: int, allowed: tuple[str, ...]) -> Array:
    """Return the biases of integer sums; for None, zeros of the first allowed dtype.

    Raises `ValueError` if they have another shape or dtype.
    """
    biases = np.zeros(channels, allowed[0]) if bias is None else np.asarray(bias)
    if biases.dtype.name not in allowed or biases.shape != (channels,):
        types = " or ".join(allowed)
        raise ValueError(f"bias must be {channels} {types}, not {biases.dtype} {biases.shape}")
    return biases


def _checked_integers(
    name: str, values: Sequence[int], length: int, *, minimum: int
) -> tuple[int, ...]:
    """Return values as integers; raise `ValueError` unless they are `length` integers in range."""
    counts = np.asarray(values)
    if counts.shape != (length,) or counts.dtype.kind not in "iu" or counts.min() < minimum:
        raise ValueError(f"{name} must be {length} integers of {minimum} or more, not {values!r}")
    return tuple(counts.tolist())


def _checked_pair(name: str, values: Sequence[int]) -> tuple[int, int]:
    """Return two checked integers of at least 1, such as a stride."""
    first, second = _checked_integers(name, values, 2, minimum=1)
    return first, second


def _checked_padding(padding: Sequence[int]) -> Padding:
    """Return a padding of top, bottom, left and right, after checks."""
    top, bottom, left, right = _checked_integers("padding", padding, 4, minimum=0)
    return Padding(top=top, bottom=bottom, left=left, right=right)


def _require_small_sums(filters: Array, bias: Array, zero_point: int, largest_input: int) -> None:
    """Raise `ValueError` if the sums of some possible input would exceed 32 bits."""
    max_abs = max(largest_input - zero_point, zero_point + largest_input + 1)
    weights = np.abs(filters.astype(np.int64)).reshape(filters.shape[0], -1).sum(axis=1)
    # As Python integers, which can hold the absolute value of any bias.
    largest = max(
        weight * max_abs + abs(own)
        for weight, own in zip(weights.tolist(), bias.tolist(), strict=True)
    )
    if largest >= 2**31:
        raise ValueError(
            f"sums must fit 32 bits whatever the input, and with these weights may be {largest}"
        )


def _scales(
    multiplier: int | Sequence[int],
    shift: int | Sequence[int],
    channels: int,
    max_shift: int,
) -> tuple[float, ...]:
    """Return each channel's scale as a float, which represents multiplier and shift exactly.

    Raises `ValueError` for a wrong number of values, or a value out of range.
    """
    pairs = []
    for name, values, low, high in (
        ("multiplier", multiplier, 2**30, 2**31 - 1),
        ("shift", shift, -31, max_shift),
    ):
        numbers = np.asarray(values)
        if numbers.shape not in ((), (channels,)) or numbers.dtype.kind not in "iu":
            raise ValueError(f"{name} must be an integer or {channels} of them, not {values!r}")
        wrong = numbers[(numbers < low) | (numbers > high)].tolist()
        if wrong:
            raise ValueError(f"{name} must be {low} to {high}, not {wrong[0]}")
        pairs.append(np.broadcast_to(numbers, channels).tolist())
    return tuple(factor * 2.0 ** (places - 31) for factor, places in zip(*pairs, strict=True))


def _graph(
    data: Array,
    filters: Array,
    bias: Array,
    scales: tuple[float, ...] | None,
    zeros: Mapping[str, int],
    attributes: Conv2D,
    result: str,
) -> Graph:
    """Return a network of one convolution.

    Input and requantised output have scale 1; without `scales`, the output has no quantisation.
    `result` is the dtype of the output. Raises `ValueError` if the filters exceed the input.
    """
    shape = data.shape
    padding, stride, dilation = attributes.padding, attributes.stride, attributes.dilation
    sides = (padding.top + padding.bottom, padding.left + padding.right)
    out = [
        (size + side - step * (taps - 1) - 1) // jump + 1
        for size, side, taps, jump, step in zip(
            shape[1:3], sides, filters.shape[1:3], stride, dilation, strict=True
        )
    ]
    if min(out) < 1:
        raise ValueError(
            f"filters must fit the padded input of {shape}, not have shape {filters.shape}"
        )

    def integers(zero: int) -> Quantisation:
        """Return the quantisation of integers themselves: scale 1 and a zero point."""
        return Quantisation(scale=(1.0,), zero_point=(zero,))

    channel_scales = (1.0,) * len(filters) if scales is None else scales
    weights = Quantisation(scale=channel_scales, zero_point=(0,) * len(channel_scales), axis=0)
    result_shape = (shape[0], *out, filters.shape[0])
    tensors = {
        0: Tensor(
            name="x",
            shape=shape,
            dtype=data.dtype.name,
            quantisation=integers(zeros["input_zero_point"]),
        ),
        1: Tensor(
            name="filters", shape=filters.shape, dtype="int8", quantisation=weights, data=filters
        ),
        2: Tensor.constant("bias", bias),
        3: Tensor(
            name="y",
            shape=result_shape,
            dtype=result,
            quantisation=None if scales is None else integers(zeros["zero_point"]),
        ),
    }
    node = Node(op=Op.CONV_2D, inputs=(0, 1, 2), outputs=(3,), attributes=attributes, index=0)
    return Graph(name="conv2d", inputs=(0,), outputs=(3,), tensors=tensors, nodes=(node,))
