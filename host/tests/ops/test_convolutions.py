"""Convolutions of arrays of 8 and 4 bits, compared with NumPy integers."""

import ml_dtypes
import numpy as np
import pytest

from matloom import ops
from matloom.arch.config import load_config

UNSCALED = {"multiplier": 2**30, "shift": 1}
NARROW = load_config("small+weight_rows=2+tables=1+products=1+i8xi4+i4xi4+i16xi8")


def int8(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-128, 128, shape, np.int8)


def int4(*shape, seed=0):
    return (int8(*shape, seed=seed) >> 4).astype(ml_dtypes.int4)


@pytest.mark.parametrize("mode", ["i8xi4", "i4xi4"])
def test_convolution_of_four_bits(mode, seed):
    """Shapes around the array's size, with padding, strides and dilation."""
    generator = np.random.default_rng(seed)
    for number in range(8):
        depth, channels = generator.integers(1, 12, 2).tolist()
        x = (int4 if mode == "i4xi4" else int8)(2, 9, 8, depth, seed=number)
        filters = int4(channels, 3, 2, depth, seed=number)
        jump, step = generator.integers(1, 3, 2).tolist()
        made = ops.conv2d(
            x,
            filters,
            mode,
            **UNSCALED,
            input_zero_point=3,
            stride=(jump, 1),
            dilation=(1, step),
            padding=(1, 0, 2, 1),
            config=NARROW,
        )
        image = np.pad(x.astype(int) - 3, ((0, 0), (1, 0), (2, 1), (0, 0)))
        for (image_number, row, column, channel), value in np.ndenumerate(made):
            right = column + step + 1
            window = image[image_number, jump * row : jump * row + 3, column:right:step]
            total = int((window * filters[channel].astype(int)).sum())
            assert value == min(max(total, -128), 127)


@pytest.mark.parametrize("device", ["model", "fast", "rtl"])
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
