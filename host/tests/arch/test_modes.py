"""The table of number formats, against NumPy's and ml_dtypes' own types."""

import ml_dtypes
import numpy as np
import pytest

from matloom.arch.floats import FLOAT_FORMATS
from matloom.arch.modes import FLOAT_MODES, FP32_FORMAT, MAC_MODES, MODES, NARROW_MODES, STORAGE


def bits_of(name):
    kind = getattr(ml_dtypes, name, None) or np.dtype(name).type
    info = ml_dtypes.finfo(kind) if name.startswith(("bf", "fl")) else ml_dtypes.iinfo(kind)
    return info.bits


@pytest.mark.parametrize("mode", MODES.values(), ids=MAC_MODES)
def test_operands_have_the_bits_of_their_types(mode):
    assert bits_of(mode.activation) == mode.activation_bits
    assert bits_of(mode.weight) == mode.weight_bits


@pytest.mark.parametrize(("mode", "storage"), STORAGE.items())
def test_storage_is_as_wide_as_the_operand(mode, storage):
    assert 8 * np.dtype(storage).itemsize == MODES[mode].activation_bits


def test_lists_of_modes():
    """Existing programs hold these mode numbers, so they must not change."""
    assert MAC_MODES == (
        "i8xi8",
        "i8xi4",
        "i4xi4",
        "i16xi8",
        "bf16",
        "fp16",
        "fp8_e4m3",
        "fp8_e5m2",
    )
    assert NARROW_MODES == ("i8xi4", "i4xi4")
    assert set(FLOAT_MODES) == set(FLOAT_FORMATS)
    assert FP32_FORMAT == 8


@pytest.mark.parametrize("mode", FLOAT_MODES)
def test_formats_of_floats_are_those_of_the_types(mode):
    info, form = ml_dtypes.finfo(MODES[mode].weight), FLOAT_FORMATS[mode]
    assert (info.nexp, info.nmant) == (form.exponent_bits, form.fraction_bits)
