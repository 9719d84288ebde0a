"""Operations on arrays, against integers of Python and of NumPy."""

import numpy as np
import pytest

from matloom import ops
from matloom.device.open import open_device

UNSCALED = {"multiplier": 2**30, "shift": 1}


def int8(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-128, 128, shape, np.int8)


def scaled(total, multiplier, shift):
    """Return a sum scaled as TensorFlow Lite Micro does, in Python's integers."""
    total <<= max(shift, 0)
    total = (total + 2**31) % 2**32 - 2**31
    product = total * multiplier
    nudged = product + (2**30 if product >= 0 else 1 - 2**30)
    high = abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)
    places = max(-shift, 0)
    rest = high & ((1 << places) - 1)
    return (high >> places) + (rest > ((1 << places) - 1) // 2 + (high < 0))


@pytest.mark.parametrize("device", ["model", "rtl"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (33, 20, 1), (1, 70, 9), (50, 33, 20)])
def test_unscaled_products(shape, device):
    rows, inner, columns = shape
    a, b = int8(rows, inner), int8(inner, columns)
    wanted = np.clip(a.astype(int) @ b.astype(int), -128, 127)
    made = ops.matmul(a, b, "i8xi8", **UNSCALED, device=device, config="nano")
    assert made.dtype == np.int8
    assert np.array_equal(made, wanted)


def test_scaled_products():
    a, b = int8(40, 90), int8(90, 25)
    bias = np.random.default_rng(1).integers(-(2**20), 2**20, 25, np.int32)
    multipliers = [2**30 + 40_000_000 * column for column in range(25)]
    shifts = [-3 - column // 3 for column in range(25)]
    made = ops.matmul(
        a,
        b,
        multiplier=multipliers,
        shift=shifts,
        bias=bias,
        zero_point=-7,
        input_zero_point=5,
        config="small",
    )
    sums = (a.astype(int) - 5) @ b.astype(int) + bias
    for (row, column), total in np.ndenumerate(sums):
        value = scaled(int(total), multipliers[column], shifts[column]) - 7
        assert made[row, column] == min(max(value, -128), 127)


def test_more_rows_than_fit_at_once():
    a, b = int8(4100, 9), int8(9, 6)
    made = ops.matmul(a, b, multiplier=2**30, shift=-6, config="nano")
    same = [ops.matmul(part, b, multiplier=2**30, shift=-6) for part in np.array_split(a, 7)]
    assert np.array_equal(made, np.concatenate(same))


@pytest.mark.parametrize("device", ["model", "rtl"])
def test_convolution(device):
    x, filters = int8(2, 7, 6, 3), int8(5, 3, 2, 3) // 16
    made = ops.conv2d(
        x,
        filters,
        **UNSCALED,
        input_zero_point=3,
        stride=(2, 1),
        dilation=(1, 2),
        padding=(1, 0, 2, 1),
        device=device,
        config="nano",
    )
    image = np.pad(x.astype(int) - 3, ((0, 0), (1, 0), (2, 1), (0, 0)))
    for (number, row, column, channel), value in np.ndenumerate(made):
        window = image[number, 2 * row : 2 * row + 3, column : column + 3 : 2]
        total = int((window * filters[channel]).sum())
        assert value == min(max(total, -128), 127)
    assert made.shape == (2, 3, 7, 5)


def test_an_operation_is_compiled_once(monkeypatch):
    a, b = int8(4, 6, seed=9), int8(6, 5, seed=9)
    first = ops.matmul(a, b, **UNSCALED)
    monkeypatch.setattr(ops, "compile_network", None)
    assert np.array_equal(ops.matmul(a, b, **UNSCALED), first)
    other = ops.matmul(a[::-1], b, **UNSCALED)
    assert np.array_equal(other, first[::-1])
    with pytest.raises(TypeError, match="not callable"):
        ops.matmul(a, b + 1, **UNSCALED)


def test_a_driver_that_is_open():
    driver = open_device("model", "nano")
    a, b, c = int8(4, 6), int8(6, 5), int8(6, 5, seed=1)
    for right in (b, c, b):
        wanted = np.clip(a.astype(int) @ right.astype(int), -128, 127)
        assert np.array_equal(ops.matmul(a, right, **UNSCALED, device=driver), wanted)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"mode": "bf16"}, ValueError, r"configuration is built with \(i8xi8\), not 'bf16'"),
        ({"a": np.zeros((2, 3))}, TypeError, "a must be int8, not float64"),
        (
            {"a": np.zeros((2, 4), np.int8)},
            ValueError,
            "a must have 3 columns, as b has rows, not 4",
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
        ({"zero_point": 128}, ValueError, "zero_point must be -128 to 127, not 128"),
        ({"bias": np.zeros(3, np.int32)}, ValueError, r"bias must be 2 int32, not int32 \(3,\)"),
        (
            {"bias": np.full(2, -(2**31), np.int32)},
            ValueError,
            "sums must fit 32 bits whatever the input, and with these weights may be 2147",
        ),
        ({"multiplier": [2**30] * 3}, ValueError, r"multiplier must be an integer or 2 of them"),
        ({"shift": 0.5}, ValueError, "shift must be an integer or 2 of them, not 0.5"),
    ],
)
def test_what_does_not_fit(change, error, sentence):
    arguments = {"a": int8(2, 3), "b": int8(3, 2), "mode": "i8xi8", **UNSCALED}
    with pytest.raises(error, match=sentence):
        ops.matmul(**{**arguments, **change})


def test_filters_that_do_not_fit():
    with pytest.raises(ValueError, match=r"x must have 2 channels, as the filters, not 3"):
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
