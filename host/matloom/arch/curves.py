"""LOGISTIC and TANH of words, as POST computes them by interpolating a table of 256 entries.

TensorFlow Lite's integer kernels for int16 define them (reference/integer_ops/logistic.h, tanh.h),
and its LSTM uses them, too. `apply_curve` uses operators only, so that it works on Python integers
and on int64 arrays.
"""

import enum
import math
from typing import Any

from matloom.arch.numerics import clamp


class Curve(enum.IntEnum):
    """Function that POST applies to a scaled sum before writing it as a word; NONE applies none."""

    NONE = 0
    LOGISTIC = 1
    TANH = 2


#: Entries that are one above the nearest integer in TensorFlow Lite's table, to reduce the error
#: between entries.
_RAISED_ENTRIES = frozenset(
    {
        *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40),
        *(41, 43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
    }
)

#: Table of sigmoid(k / 24) for k from 0 to 255, as multiples of 2**-16.
SIGMOIDS = tuple(
    round(2**16 / (1 + math.exp(-entry / 24))) + (entry in _RAISED_ENTRIES) for entry in range(256)
)

#: Divisor of the argument of both curves, three times 2**12.
ARGUMENT_SCALE = 3 * 2**12

#: Low bits of LOGISTIC's argument that interpolate between two entries of the table; TANH doubles
#: its argument first.
FRACTION_BITS = 9

#: Fraction bits of results.
RESULT_BITS = 15

_LAST_ENTRY = len(SIGMOIDS) - 1


def apply_curve(x: Any, curve: Curve, sigmoids: Any = SIGMOIDS) -> Any:
    """Return a curve of ``x / ARGUMENT_SCALE`` in Q0.15, for 32-bit integers `x`.

    Parameters
    ----------
    sigmoids:
        `SIGMOIDS` in a form that `x` can index.
    """
    tanh = curve == Curve.TANH
    magnitude = abs(x) << tanh
    at = clamp(magnitude >> FRACTION_BITS, 0, _LAST_ENTRY)
    part = magnitude & ((1 << FRACTION_BITS) - 1)
    below, above = sigmoids[at], sigmoids[clamp(at + 1, 0, _LAST_ENTRY)]
    # The last entry of LOGISTIC is the largest word, so that it is never one.
    below = below - ((at == _LAST_ENTRY) & (not tanh))
    line = (below << FRACTION_BITS) + part * (above - below) * (at != _LAST_ENTRY)
    sign = 1 - 2 * (x < 0)
    if tanh:
        # 2 sigmoid(2 x) - 1, an odd function.
        return sign * (((line + (1 << FRACTION_BITS - 1)) >> FRACTION_BITS) - (1 << RESULT_BITS))
    half = (line + (1 << FRACTION_BITS)) >> FRACTION_BITS + 1
    return sign * half + ((x < 0) << RESULT_BITS)
