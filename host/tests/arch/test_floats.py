"""Floating-point rules against NumPy's float32 and ml_dtypes' formats, bit for bit."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from matloom.arch.floats import FLOAT_FORMATS, FP32, NAN, add, limit, multiply, narrow, widen

DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
}

#: Zeros, subnormals, ones and neighbours, extremes, infinities, NaN: the fp32 patterns.
CORNERS = [
    sign | magnitude
    for sign in (0, 1 << 31)
    for magnitude in (
        *(0, 1, 2, 3, 0x7FFFFE, 0x7FFFFF, 0x800000, 0x800001, 0x1000000, 0x33800000, 0x33800001),
        *(0x34000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3F800003, 0x40000000, 0x4B800000),
        *(0x7F000000, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF),
    )
]


def as_float32(patterns):
    return np.asarray(patterns).astype(np.uint32).view(np.float32)


def from_float32(values):
    """Return the bit patterns, with every NaN replaced by the engine's."""
    patterns = values.view(np.uint32).astype(np.int64)
    return np.where(np.isnan(values), NAN, patterns)


def as_format(patterns, name):
    width = np.uint8 if FLOAT_FORMATS[name].bits == 8 else np.uint16
    return np.asarray(patterns).astype(width).view(DTYPES[name])


def reference_product(a, b, name):
    with np.errstate(all="ignore"):
        return from_float32(
            as_format(a, name).astype(np.float32) * as_format(b, name).astype(np.float32)
        )


def reference_sum(a, b):
    with np.errstate(all="ignore"):
        return from_float32(as_float32(a) + as_float32(b))


def random_sums(generator, count):
    """Return pairs of fp32 patterns: arbitrary ones, ones that cancel, and near ties."""
    a = generator.integers(0, 2**32, count)
    b = generator.integers(0, 2**32, count)
    near = (a ^ 1 << 31) & (255 << 23 | 1 << 31) | b & 0x7FFFFF
    nearer = (a ^ 1 << 31) + generator.integers(-3, 4, count) & 2**32 - 1
    exponents = np.clip((a >> 23 & 255) - generator.integers(0, 30, count), 0, 255)
    below = b & (1 << 31 | 0x7C0000) | exponents << 23
    kind = generator.integers(0, 4, count)
    return a, np.choose(kind, [b, near, nearer, below])


@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_conversions_of_every_narrow_number(name):
    form = FLOAT_FORMATS[name]
    every = np.arange(1 << form.bits)
    wide = widen(every, form)
    with np.errstate(all="ignore"):
        assert np.array_equal(wide, from_float32(as_format(every, name).astype(np.float32)))
    numbers = (wide & 0x7FFFFFFF) <= FP32.above
    assert np.array_equal(narrow(wide, form)[numbers], every[numbers])


def check_narrow(patterns, name):
    with np.errstate(all="ignore"):
        values = as_float32(patterns)
        wanted = values.astype(DTYPES[name])
        raw = wanted.view(np.uint8 if FLOAT_FORMATS[name].bits == 8 else np.uint16)
    form = FLOAT_FORMATS[name]
    raw = np.where(np.isnan(values), form.nan, raw.astype(np.int64))
    found = narrow(patterns, form)
    wrong = np.flatnonzero(found != raw)
    assert not len(wrong), (hex(patterns[wrong[0]]), hex(found[wrong[0]]), hex(raw[wrong[0]]))


@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_narrowing(seed, name):
    """Try arbitrary patterns, and those around each number of the format and each midpoint."""
    form = FLOAT_FORMATS[name]
    wide = widen(np.arange((1 << form.bits - 1) - 1), form)
    wide = wide[wide < FP32.above]
    values = as_float32(wide).astype(np.float64)
    middles = from_float32(((values[1:] + values[:-1]) / 2).astype(np.float32))
    around = np.concatenate([each + step for each in (wide, middles) for step in (-1, 0, 1)])
    around = around[around >= 0]
    anything = np.random.default_rng(seed).integers(0, 2**32, 200_000)
    check_narrow(np.concatenate([around, around | 1 << 31, anything, CORNERS]), name)


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2"])
def test_every_product_of_8_bits(name):
    a, b = (each.ravel() for each in np.meshgrid(np.arange(256), np.arange(256)))
    assert np.array_equal(multiply(a, b, FLOAT_FORMATS[name]), reference_product(a, b, name))


def products_16(generator, count, name):
    """Return random operands together with all pairs of corners."""
    form = FLOAT_FORMATS[name]
    corners = {narrow(each, form) for each in CORNERS} | {1, 2, form.above - 1, form.above + 1}
    corners |= {each | 1 << 15 for each in corners}
    pairs = np.array(list(itertools.product(sorted(corners), repeat=2)))
    # Exponents of every size, and small ones, whose products lie among fp32's subnormals.
    a = generator.integers(0, 2**16, count)
    b = generator.integers(0, 2**16, count)
    opposite = (127 << 7) - (a & 0x7F80) + (generator.integers(-30, 6, count) << 7)
    low = np.clip(opposite, 0, 0x7F80) | b & 0x807F
    b = np.where(generator.integers(0, 2, count) & (name == "bf16"), low, b)
    return np.concatenate([pairs[:, 0], a]), np.concatenate([pairs[:, 1], b])


def check_products(generator, count, name):
    a, b = products_16(generator, count, name)
    assert np.array_equal(multiply(a, b, FLOAT_FORMATS[name]), reference_product(a, b, name))


def check_sums(generator, count):
    a, b = random_sums(generator, count)
    pairs = np.array(list(itertools.product(CORNERS, repeat=2)))
    a, b = np.concatenate([pairs[:, 0], a]), np.concatenate([pairs[:, 1], b])
    found, wanted = add(a, b), reference_sum(a, b)
    wrong = np.flatnonzero(found != wanted)
    assert not len(wrong), [hex(each[wrong[0]]) for each in (a, b, found, wanted)]


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_products_of_16_bits(seed, name):
    check_products(np.random.default_rng(seed), 100_000, name)


def test_sums(seed):
    check_sums(np.random.default_rng(seed), 100_000)


@pytest.mark.slow
def test_a_million_of_each(seed):
    generator = np.random.default_rng(seed)
    for name in ("bf16", "fp16"):
        check_products(generator, 1_000_000, name)
    check_sums(generator, 1_000_000)


def test_limits():
    """Compare ReLU6 and no limits with NumPy; zeros and NaN follow the rule."""
    zero, six, minus = 0, 0x40C00000, FP32.above | 1 << 31
    x = np.array([each for each in CORNERS if each & 0x7FFFFFFF])
    with np.errstate(all="ignore"):
        wanted = from_float32(np.clip(as_float32(x), np.float32(0), np.float32(6)))
    assert np.array_equal(limit(x, zero, six), wanted)
    assert np.array_equal(limit(x, minus, FP32.above), from_float32(as_float32(x)))
    assert limit(1 << 31, zero, six) == 0
    assert limit(1 << 31, minus, six) == 1 << 31


def test_arrays_and_integers_agree(seed):
    a, b = random_sums(np.random.default_rng(seed), 300)
    together = add(a, b)
    assert [add(int(x), int(y)) for x, y in zip(a, b, strict=True)] == together.tolist()
    for form in FLOAT_FORMATS.values():
        short = [narrow(int(x), form) for x in a]
        assert short == narrow(a, form).tolist()
        products = multiply(np.array(short), np.array(short)[::-1], form)
        pairs = zip(short, short[::-1], strict=True)
        assert [multiply(x, y, form) for x, y in pairs] == products.tolist()
