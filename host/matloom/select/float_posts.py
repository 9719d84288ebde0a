"""The POSTs of floating-point numbers: formats, limits, sums and roundings."""

from matloom.arch.isa import Destination, Source
from matloom.arch.modes import FP32_FORMAT, MAC_MODES, STORAGE
from matloom.arch.numerics import Rounding
from matloom.ir.attributes import Activation
from matloom.select.stage import Posts

__all__ = ["LIMITS", "NUMBER_FORMATS", "float_post", "limit_posts", "sum_posts"]

#: Limits of each activation as signed bytes: numbers of fp8_e5m2.
LIMITS = {
    Activation.NONE: (-4, 0x7C),
    Activation.RELU: (0, 0x7C),
    Activation.RELU6: (0, 0x46),
    Activation.RELU_N1_TO_1: (0x3C | -128, 0x3C),
}

#: The format of a tensor's elements, by their dtype.
NUMBER_FORMATS = {
    "float32": FP32_FORMAT,
    **{dtype: MAC_MODES.index(mode) for mode, dtype in STORAGE.items()},
}

#: fp32 -0, which changes nothing where it is added.
_NOTHING = -(2**31)


def float_post(dtype: str, activation: Activation) -> dict[str, int]:
    """Return the fields for elements of a dtype on chip, and for the limits of an activation."""
    low, high = LIMITS[activation]
    return {
        "rounding": Rounding.FLOAT,
        "pre_shift": NUMBER_FORMATS[dtype],
        "clamp_low": low,
        "clamp_high": high,
    }


def _into(destination: Destination) -> dict[str, int]:
    """Return a POST of float32 that sets accumulators or adds to them."""
    same = float_post("float32", Activation.NONE)
    return {"source": Source.SPAD, "destination": destination, "bias": _NOTHING, **same}


def _out_of(source: Source, dtype: str, activation: Activation) -> dict[str, int]:
    result = float_post(dtype, activation)
    return {"source": source, "destination": Destination.SPAD, "bias": _NOTHING, **result}


def limit_posts(dtype: str, activation: Activation) -> Posts:
    """Return float32 limited, as elements of a dtype; a POST has one format on chip."""
    if dtype == "float32":
        return ((0, _out_of(Source.SPAD, dtype, activation)),)
    return (
        (0, _into(Destination.ACC_SET)),
        (None, _out_of(Source.ACC, dtype, activation)),
    )


def sum_posts(dtype: str, activation: Activation) -> Posts:
    """Return the sum of two tensors of float32, limited, as elements of a dtype."""
    return (
        (0, _into(Destination.ACC_SET)),
        (1, _into(Destination.ACC_ADD)),
        (None, _out_of(Source.ACC, dtype, activation)),
    )
