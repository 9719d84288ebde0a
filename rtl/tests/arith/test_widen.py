"""Widen, compared with the number rules: every 8-bit number, many of 16 bits."""

import numpy as np
import pytest

from matloom.arch.floats import FLOAT_FORMATS, widen
from matloom_rtl.arith.widen import Widen

FORMATS = tuple(FLOAT_FORMATS)


def gather(step):
    patterns = [np.arange(0, 1 << FLOAT_FORMATS[name].bits) for name in FORMATS]
    patterns = [each if len(each) == 256 else each[::step] for each in patterns]
    wanted = [
        widen(each, FLOAT_FORMATS[name]) for each, name in zip(patterns, FORMATS, strict=True)
    ]
    form = np.repeat(np.arange(len(FORMATS)), [len(each) for each in patterns])
    return np.concatenate(wanted), {"bits": np.concatenate(patterns), "format": form}


def test_numbers(check):
    wanted, inputs = gather(61)
    check(Widen(FORMATS), Widen.LATENCY, wanted, **inputs)


def test_one_format(check):
    patterns = np.arange(256)
    wanted = widen(patterns, FLOAT_FORMATS["fp8_e5m2"])
    check(Widen(("fp8_e5m2",)), Widen.LATENCY, wanted, bits=patterns)


@pytest.mark.slow
def test_every_number(check_all):
    wanted, inputs = gather(1)
    check_all(Widen(FORMATS), Widen.LATENCY, wanted, **inputs)
