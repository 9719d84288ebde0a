"""POSTs of floating-point numbers: formats, limits, sums and rounding."""

import numpy as np

from matloom.arch.floats import FLOAT_FORMATS, FP32, narrow, widen
from matloom.arch.isa import Destination, Source
from matloom.arch.modes import FP32_FORMAT, MAC_MODES, STORAGE
from matloom.arch.numerics import Rounding
from matloom.ir.attributes import Activation
from matloom.select.stage import Posts

#: Lower and upper limit of each activation: fp8_e5m2 patterns as signed bytes.
LIMITS = {
    Activation.NONE: (-4, 0x7C),
    Activation.RELU: (0, 0x7C),
    Activation.RELU6: (0, 0x46),
    Activation.RELU_N1_TO_1: (0x3C | -128, 0x3C),
}

#: Format codes of elements, by dtype.
NUMBER_FORMATS = {
    "float32": FP32_FORMAT,
    **{dtype: MAC_MODES.index(mode) for mode, dtype in STORAGE.items()},
}

#: Pattern of fp32 -0, the neutral element of addition, as a signed integer.
NOTHING = -(2**31)


def limit_pattern(value: float) -> int:
    """Return the fp8_e5m2 bit pattern of a minimum or maximum, as a signed byte.

    Raises
    ------
    ValueError
        The format cannot represent the value.
    """
    form = FLOAT_FORMATS["fp8_e5m2"]
    wide = int(np.float32(value).view(np.uint32))
    pattern = narrow(wide, form)
    if np.isnan(value) or widen(pattern, form) != wide:
        raise ValueError(f"a limit must be a number that float8_e5m2 holds, not {value}")
    return (int(pattern) + 128) % 256 - 128


def _format_code(name: str) -> int:
    """Return the code of a named number format, as in the field `pre_shift` of POST."""
    return FP32_FORMAT if name == FP32.name else MAC_MODES.index(name)


def _format_and_limits(format_code: int, limits: tuple[int, int]) -> dict[str, int]:
    """Return the POST fields for elements' number format and results' minimum, maximum.

    `format_code` is the code of the format; `limits` are signed bytes, as in `LIMITS`.
    """
    return {
        "rounding": Rounding.FLOAT,
        "pre_shift": format_code,
        "clamp_low": limits[0],
        "clamp_high": limits[1],
    }


def float_post(dtype: str, activation: Activation) -> dict[str, int]:
    """Return a POST's fields for elements of `dtype`, clamped as an activation does."""
    return _format_and_limits(NUMBER_FORMATS[dtype], LIMITS[activation])


def result_post(name: str, limits: tuple[float, float]) -> dict[str, int]:
    """Return a POST's fields for results in the format `name`, clamped to (minimum, maximum)."""
    return _format_and_limits(
        _format_code(name), (limit_pattern(limits[0]), limit_pattern(limits[1]))
    )


def addend_post(name: str) -> dict[str, int]:
    """Return the fields of a POST that adds elements of a named format to accumulators."""
    return _to_accumulators(Destination.ACC_ADD, _format_code(name))


def _to_accumulators(destination: Destination, format_code: int = FP32_FORMAT) -> dict[str, int]:
    """Return the fields of a POST that sets accumulators to elements, or adds elements to them.

    `format_code` is the code of the elements' format.
    """
    same = _format_and_limits(format_code, LIMITS[Activation.NONE])
    return {"source": Source.SPAD, "destination": destination, "bias": NOTHING, **same}


def _to_scratchpad(source: Source, dtype: str, activation: Activation) -> dict[str, int]:
    """Return the fields of a POST that writes elements of `dtype` to the scratchpad."""
    result = float_post(dtype, activation)
    return {"source": source, "destination": Destination.SPAD, "bias": NOTHING, **result}


def limit_posts(dtype: str, activation: Activation) -> Posts:
    """Return the POST instructions that clamp a float32 tensor and write elements of `dtype`.

    One POST handles one format in the scratchpad, so another dtype than float32 takes two.
    """
    if dtype == "float32":
        return ((0, _to_scratchpad(Source.SPAD, dtype, activation)),)
    return (
        (0, _to_accumulators(Destination.ACC_SET)),
        (None, _to_scratchpad(Source.ACC, dtype, activation)),
    )


def sum_posts(dtype: str, activation: Activation) -> Posts:
    """Return the POST instructions that add two float32 tensors, clamp, and write `dtype`."""
    return (
        (0, _to_accumulators(Destination.ACC_SET)),
        (1, _to_accumulators(Destination.ACC_ADD)),
        (None, _to_scratchpad(Source.ACC, dtype, activation)),
    )
