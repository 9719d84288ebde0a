"""Narrow, compared with the number rules: corners, numbers of the format and their midpoints."""

import numpy as np
import pytest

from matloom.arch.floats import FLOAT_FORMATS, narrow, widen
from matloom_rtl.arith.narrow import Narrow

FORMATS = tuple(FLOAT_FORMATS)


def gather(numbers, count, step):
    """Return fp32 patterns for every format: arbitrary ones, and some near rounding thresholds."""
    columns = []
    for index, name in enumerate(FORMATS):
        form = FLOAT_FORMATS[name]
        here = widen(np.arange(1 << form.bits), form)
        here = here if len(here) == 256 else here[::step]
        half = 1 << (22 - form.fraction_bits)
        around = [np.clip(here + each, 0, 2**32 - 1) for each in (-1, 0, half - 1, half, half + 1)]
        a = np.concatenate([numbers.some(count), *around])
        columns.append((a, np.full(len(a), index), narrow(a, form)))
    a, form, wanted = map(np.concatenate, zip(*columns, strict=True))
    return wanted, {"a": a, "format": form}


def test_numbers(numbers, check):
    wanted, inputs = gather(numbers, 200, 401)
    check(Narrow(FORMATS), Narrow.LATENCY, wanted, **inputs)


@pytest.mark.slow
def test_every_number_and_a_million(numbers, check_all):
    wanted, inputs = gather(numbers, 1_000_000, 1)
    check_all(Narrow(FORMATS), Narrow.LATENCY, wanted, **inputs)
