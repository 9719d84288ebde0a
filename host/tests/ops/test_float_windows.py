"""Floating-point convolutions, compared with NumPy's float32 in the stated order."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import matloom
from matloom import ops
from matloom.arch.config import PRESETS
from matloom.arch.modes import FLOAT_MODES
from matloom.ir.attributes import Conv2D, Padding
from matloom.ir.graph import Graph, Node, Op, Tensor

DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
}
#: As the chip of floating point in host/tests/device, so that one simulator serves both.
CONFIG = dataclasses.replace(
    PRESETS["nano"], weight_rows=2, float_rows=2, mac_modes=("i8xi8", "i16xi8", *FLOAT_MODES)
)
#: Image, filters, stride, dilation, padding.
SHAPES = (
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((2, 7, 6, 3), (5, 3, 2, 3), (2, 1), (1, 1), (1, 0, 2, 1)),
    ((1, 9, 8, 5), (9, 2, 3, 5), (1, 2), (2, 3), (0, 2, 3, 0)),
    ((3, 12, 11, 4), (17, 3, 3, 4), (1, 1), (1, 1), (1, 1, 1, 1)),
)


def numbers(generator, shape, mode, *, wild=False):
    """Return ordinary numbers, or arbitrary patterns including subnormals, infinities and NaN."""
    dtype = np.dtype(DTYPES[mode])
    if wild:
        raw = generator.integers(0, 256**dtype.itemsize, shape)
        return raw.astype(f"u{dtype.itemsize}").view(dtype)
    return generator.standard_normal(shape).astype(dtype)


def convolution(x, filters, stride, dilation, padding):
    """Add two products at a time to the sum, each kernel row from its left end."""
    height, width, depth = filters.shape[1:]
    top, bottom, left, right = padding
    x, filters = x.astype(np.float32), filters.astype(np.float32)
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    rows = (x.shape[1] - dilation[0] * (height - 1) - 1) // stride[0] + 1
    columns = (x.shape[2] - dilation[1] * (width - 1) - 1) // stride[1] + 1
    total = None
    with np.errstate(all="ignore"):
        for row in range(height):
            products = []
            for column, channel in np.ndindex(width, depth):
                y, z = row * dilation[0], column * dilation[1]
                seen = x[:, y :: stride[0], z :: stride[1], channel][:, :rows, :columns]
                products.append(seen[..., None] * filters[:, row, column, channel])
            if len(products) % 2:
                products.append(np.zeros_like(products[0]))
            for first, second in zip(products[::2], products[1::2], strict=True):
                pair = first + second
                total = pair if total is None else total + pair
    return total


def assert_same(found, wanted):
    """Compare bit for bit, except for the payload of a NaN."""
    assert found.dtype == wanted.dtype
    nan = np.isnan(wanted.astype(np.float32))
    assert np.array_equal(np.isnan(found.astype(np.float32)), nan)
    bits = f"u{found.dtype.itemsize}"
    assert np.array_equal(found.view(bits)[~nan], wanted.view(bits)[~nan])


@pytest.mark.parametrize("mode", FLOAT_MODES)
@pytest.mark.parametrize("place", range(len(SHAPES)))
@pytest.mark.parametrize("wild", [False, True], ids=["ordinary", "wild"])
def test_convolutions(mode, place, wild, seed):
    generator = np.random.default_rng([seed, place])
    shape, kernel, stride, dilation, padding = SHAPES[place]
    x = numbers(generator, shape, mode, wild=wild)
    filters = numbers(generator, kernel, mode, wild=wild)
    window = {"stride": stride, "dilation": dilation, "padding": padding}
    made = ops.conv2d(x, filters, mode, **window, config=CONFIG)
    assert_same(made, convolution(x, filters, **window))


@pytest.mark.parametrize("mode", FLOAT_MODES)
def test_epilogue(mode):
    generator = np.random.default_rng(1)
    x, filters = (numbers(generator, shape, mode) for shape in ((1, 5, 6, 3), (7, 3, 3, 3)))
    bias = generator.standard_normal(7).astype(np.float32)
    residual = numbers(generator, (1, 3, 4, 7), mode)
    sums = convolution(x, filters, (1, 1), (1, 1), (0, 0, 0, 0))
    made = ops.conv2d(
        x,
        filters,
        mode,
        bias=bias,
        residual=residual,
        limits=(0, 6),
        output=DTYPES[mode],
        config=CONFIG,
    )
    wanted = np.clip((sums + residual.astype(np.float32)) + bias, 0, 6)
    assert_same(made, wanted.astype(DTYPES[mode]))


@pytest.mark.parametrize("mode", ["bf16", "fp16"])
def test_the_order_is_that_of_a_layer(mode):
    """A network's convolution of the same numbers gives the same sums."""
    generator = np.random.default_rng(2)
    x, filters = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in ((1, 8, 7, 3), (6, 3, 3, 3))
    )
    bias = generator.standard_normal(6).astype(np.float32)
    attributes = Conv2D(padding=Padding(top=1, bottom=1, left=1, right=1))
    tensors = {
        0: Tensor(name="x", shape=x.shape, dtype="float32"),
        1: Tensor(name="w", shape=filters.shape, dtype="float32", data=filters),
        2: Tensor(name="b", shape=bias.shape, dtype="float32", data=bias),
        3: Tensor(name="y", shape=(1, 8, 7, 6), dtype="float32"),
    }
    node = Node(op=Op.CONV_2D, inputs=(0, 1, 2), outputs=(3,), attributes=attributes, index=0)
    graph = Graph(name="net", inputs=(0,), outputs=(3,), tensors=tensors, nodes=(node,))
    layer = matloom.load(graph, device="model", config=CONFIG, precision=mode).run(x)
    made = ops.conv2d(x, filters, mode, bias=bias, padding=(1, 1, 1, 1), config=CONFIG)
    assert np.array_equal(made, layer)


@pytest.mark.slow
def test_chip(seed):
    generator = np.random.default_rng(seed)
    for mode in FLOAT_MODES:
        x, filters = (numbers(generator, shape, mode) for shape in ((1, 6, 5, 3), (5, 3, 2, 3)))
        window = {"stride": (2, 1), "dilation": (1, 2), "padding": (1, 0, 2, 1)}
        made = ops.conv2d(x, filters, mode, **window, device="rtl", config=CONFIG)
        assert_same(made, convolution(x, filters, **window))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"x": np.zeros((3, 3, 2), np.float32)}, "x must have 4 axes and an element, not shape"),
        ({"x": np.zeros((1, 3, 3, 1), np.float32)}, "x must have 2 channels, like the filters"),
        ({"x": np.zeros((1, 1, 1, 2), np.float32)}, r"fit the padded input of \(1, 1, 1, 2\)"),
        (
            {"residual": np.zeros((1, 3, 3, 4), np.float32)},
            r"residual must have the shape \(1, 2, 2, 4\), not \(1, 3, 3, 4\)",
        ),
        ({"stride": (0, 1)}, r"stride must be 2 integers of 1 or more, not \(0, 1\)"),
        ({"config": "nano"}, r"that the configuration has \(i8xi8\), not 'bf16'"),
    ],
)
def test_refusals(change, sentence):
    arguments = {
        "x": np.zeros((1, 3, 3, 2), np.float32),
        "filters": np.zeros((4, 2, 2, 2), np.float32),
        "config": CONFIG,
    }
    with pytest.raises(ValueError, match=sentence):
        ops.conv2d(**{**arguments, **change}, mode="bf16")
