"""Errors of operations on integer arrays."""

import numpy as np
import pytest

from matloom import ops
from matloom.arch.config import load_config

UNSCALED = {"multiplier": 2**30, "shift": 1}
NARROW = load_config("small+weight_rows=2+tables=1+products=1+i8xi4+i4xi4+i16xi8")
WORDS = {
    **{"mode": "i16xi8", "config": NARROW, "output": np.int16},
    "a": np.zeros((2, 3), np.int16),
}


def int8(*shape):
    return np.ones(shape, np.int8)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (
            {"mode": "bf16", "config": "reference"},
            ValueError,
            r"that the configuration has \(i8xi8\), not 'bf16'",
        ),
        ({"a": np.zeros((2, 3))}, TypeError, "a must be int8, not float64"),
        (
            {"a": np.zeros((2, 4), np.int8)},
            ValueError,
            "a must have 3 columns, the number of b's rows, not 4",
        ),
        (
            {"b": np.zeros(3, np.int8)},
            ValueError,
            r"b must have 2 axes and an element, not .*\(3,\)",
        ),
        ({"a": np.zeros((0, 3), np.int8)}, ValueError, r"an element, not shape \(0, 3\)"),
        ({"shift": 31}, ValueError, "shift must be -31 to 30, not 31"),
        (
            {"multiplier": [2**30, 5]},
            ValueError,
            "multiplier must be 1073741824 to 2147483647, not 5",
        ),
        (
            {"mode": "i8xi4", "config": NARROW, "b": np.full((3, 2), 8, np.int8)},
            ValueError,
            "b must be -8 to 7 in i4, not 8",
        ),
        (
            {"mode": "i4xi4", "config": NARROW, "a": np.zeros((2, 3), np.uint8)},
            TypeError,
            "a must be int8 or int4, not uint8",
        ),
        (
            {
                **{"mode": "i4xi4", "config": NARROW, "input_zero_point": 8},
                **{"a": np.zeros((2, 3), np.int8), "b": np.zeros((3, 2), np.int8)},
            },
            ValueError,
            "input_zero_point must be -8 to 7, not 8",
        ),
        (
            {"mode": "i16xi8", "config": NARROW, "a": np.zeros((2, 3), np.int8)},
            TypeError,
            "a must be int16, not int8",
        ),
        (
            {
                **{"mode": "i16xi8", "config": NARROW, "a": np.zeros((2, 600), np.int16)},
                "b": np.full((600, 2), -128, np.int8),
            },
            ValueError,
            "sums must fit 32 bits whatever the input, and with these weights may be 2516582400",
        ),
        ({"zero_point": 128}, ValueError, "zero_point must be -128 to 127, not 128"),
        (
            {"output": np.int16},
            ValueError,
            "output must be int8 in i8xi8 with a multiplier, not int16",
        ),
        (
            {"output": np.int32},
            ValueError,
            "output must be int8 in i8xi8 with a multiplier, not int32",
        ),
        (
            {**WORDS, "output": "uint8"},
            ValueError,
            "output must be int8 or int16 in i16xi8 with a multiplier, not uint8",
        ),
        (
            {**WORDS, "multiplier": None, "shift": None},
            ValueError,
            "output must be int32 in i16xi8 without a multiplier, not int16",
        ),
        (
            {**WORDS, "zero_point": 7},
            ValueError,
            "zero_point must be 0 for int16, not 7",
        ),
        (
            {**WORDS, "input_zero_point": 7},
            ValueError,
            "input_zero_point must be 0 for int16, not 7",
        ),
        (
            {**WORDS, "bias": np.zeros(2, np.int16)},
            ValueError,
            r"bias must be 2 int32 or int64, not int16 \(2,\)",
        ),
        (
            {**WORDS, "bias": np.full(2, -(2**63))},
            ValueError,
            "sums must fit 32 bits whatever the input, and with these weights may be 922337",
        ),
        (
            {**WORDS, "bias": np.zeros(2, np.int64), "shift": 8},
            ValueError,
            "shift must be -31 to 7, not 8",
        ),
        (
            {"residual": np.zeros((2, 2))},
            TypeError,
            "residual and limits are for floating-point modes, not for i8xi8",
        ),
        (
            {"limits": (0, 6)},
            TypeError,
            "residual and limits are for floating-point modes, not for i8xi8",
        ),
        ({"bias": np.zeros(3, np.int32)}, ValueError, r"bias must be 2 int32, not int32 \(3,\)"),
        (
            {"bias": np.full(2, -(2**31), np.int32)},
            ValueError,
            "sums must fit 32 bits whatever the input, and with these weights may be 2147",
        ),
        ({"multiplier": [2**30] * 3}, ValueError, r"multiplier must be an integer or 2 of them"),
        ({"shift": None}, TypeError, "multiplier and shift must be given together"),
        ({"shift": 0.5}, ValueError, "shift must be an integer or 2 of them, not 0.5"),
    ],
)
def test_misfits(change, error, sentence):
    arguments = {"a": int8(2, 3), "b": int8(3, 2), "mode": "i8xi8", **UNSCALED}
    with pytest.raises(error, match=sentence):
        ops.matmul(**{**arguments, **change})


@pytest.mark.parametrize("name", ["zero_point", "input_zero_point"])
def test_zero_points_are_integers(name):
    with pytest.raises(TypeError, match=rf"{name} must be an integer, not 1\.5"):
        ops.matmul(int8(2, 3), int8(3, 2), **UNSCALED, **{name: 1.5})


def test_a_configuration_of_another_type():
    with pytest.raises(TypeError, match="config must be a preset, a JSON file or a Config, not 8"):
        ops.matmul(int8(2, 3), int8(3, 2), config=8)


def test_filters_that_do_not_fit():
    with pytest.raises(ValueError, match=r"x must have 2 channels, like the filters, not 3"):
        ops.conv2d(int8(1, 3, 3, 3), int8(1, 1, 1, 2), **UNSCALED)
    with pytest.raises(ValueError, match=r"must fit the padded input of \(1, 3, 3, 1\)"):
        ops.conv2d(int8(1, 3, 3, 1), int8(1, 4, 1, 1), **UNSCALED)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"stride": (0, 1)}, r"stride must be 2 integers of 1 or more, not \(0, 1\)"),
        ({"dilation": 2}, "dilation must be 2 integers of 1 or more, not 2"),
        ({"padding": (1, 1)}, r"padding must be 4 integers of 0 or more, not \(1, 1\)"),
    ],
)
def test_attributes_that_are_none(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        ops.conv2d(int8(1, 3, 3, 2), int8(1, 1, 1, 2), **UNSCALED, **change)
