"""Operations on arrays, compared with integers of Python and NumPy."""

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from matloom import ops
from matloom.arch.config import load_config
from matloom.compiler import compile_network
from matloom.device.open import open_device
from matloom.ops import sessions

UNSCALED = {"multiplier": 2**30, "shift": 1}
NARROW = load_config("small+weight_rows=2+tables=1+products=1+i8xi4+i4xi4+i16xi8")
#: The chip of NARROW, whose simulator takes a minute to build.
CHIP = pytest.param("rtl", marks=pytest.mark.slow)


def int8(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-128, 128, shape, np.int8)


def int4(*shape, seed=0):
    return (int8(*shape, seed=seed) >> 4).astype(ml_dtypes.int4)


@pytest.fixture
def on_the_engine(monkeypatch):
    """Fail if an operation runs on the host."""

    def compile_for_engine(graph, config):
        program = compile_network(graph, config)
        assert [layer.where for layer in program.layers] == ["engine"]
        return program

    monkeypatch.setattr(sessions, "compile_network", compile_for_engine)


def scaled(total, multiplier, shift):
    """Return a sum scaled as by TensorFlow Lite Micro, in Python integers."""
    total <<= max(shift, 0)
    total = (total + 2**31) % 2**32 - 2**31
    product = total * multiplier
    nudged = product + (2**30 if product >= 0 else 1 - 2**30)
    high = abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)
    places = max(-shift, 0)
    rest = high & ((1 << places) - 1)
    return (high >> places) + (rest > ((1 << places) - 1) // 2 + (high < 0))


def scaled_wide(total, multiplier, shift):
    """Return a 64-bit sum scaled as by TensorFlow Lite Micro, in Python integers."""
    short = min((multiplier + 2**15) // 2**16, 2**15 - 1)
    return (total * short + 2 ** (14 - shift)) // 2 ** (15 - shift)


def int16(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-(2**15), 2**15, shape, np.int16)


@pytest.mark.parametrize("device", ["model", "fast", "rtl"])
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


@pytest.mark.parametrize("device", ["model", "fast", CHIP])
@pytest.mark.parametrize("mode", ["i8xi4", "i4xi4"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 20, 1), (5, 70, 9), (50, 33, 20), (9, 40, 37)])
def test_products_of_four_bits(shape, mode, device):
    rows, inner, columns = shape
    a, b = (int4 if mode == "i4xi4" else int8)(rows, inner), int4(inner, columns)
    arguments = {"zero_point": -9, "input_zero_point": -8, "device": device, "config": NARROW}
    made = ops.matmul(a, b, mode, multiplier=2**30 + 12345, shift=-2, **arguments)
    sums = (a.astype(int) + 8) @ b.astype(int)
    for place, total in np.ndenumerate(sums):
        assert made[place] == np.clip(scaled(int(total), 2**30 + 12345, -2) - 9, -128, 127)


@pytest.mark.fast_cases(12)
@pytest.mark.parametrize("device", ["model", "fast", CHIP])
@pytest.mark.parametrize("mode", ["i8xi8", "i8xi4", "i4xi4", "i16xi8"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 20, 1), (5, 60, 9), (60, 33, 40)])
def test_sums(shape, mode, device):
    """Exact sums with a bias; extremes in the first row and column."""
    rows, inner, columns = shape
    b = (int4 if mode.endswith("i4") else int8)(inner, columns)
    if mode == "i16xi8":
        a = np.random.default_rng(shape).integers(-(2**15), 2**15, (rows, inner), np.int16)
    else:
        a = (int4 if mode == "i4xi4" else int8)(rows, inner)
    a[0], b[:, 0] = {"i4": -8, "i8": -128, "i16": -(2**15)}[mode.split("x")[0]], b.min()
    bias = np.random.default_rng(3).integers(-(2**20), 2**20, columns, np.int32)
    made = ops.matmul(a, b, mode, bias=bias, device=device, config=NARROW)
    assert made.dtype == np.int32
    assert np.array_equal(made, a.astype(int) @ b.astype(int) + bias)


@pytest.mark.usefixtures("on_the_engine")
def test_sums_of_any_shape_on_the_engine(seed):
    """Results larger than the scratchpad, and convolutions, with a zero point."""
    generator = np.random.default_rng(seed)
    for number in range(4):
        rows, inner, columns = generator.integers(1, 300, 3).tolist()
        a, b = int8(rows, inner, seed=number), int8(inner, columns, seed=number)
        made = ops.matmul(a, b, input_zero_point=-3, config="nano")
        assert np.array_equal(made, (a.astype(int) + 3) @ b.astype(int))
    x, filters = int8(1, 9, 8, 3), int8(10, 3, 3, 3)
    made = ops.conv2d(x, filters, padding=(1, 1, 1, 1), config="nano")
    image = np.pad(x.astype(int), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for (_image, row, column, channel), value in np.ndenumerate(made):
        assert value == (image[0, row : row + 3, column : column + 3] * filters[channel]).sum()


@pytest.mark.parametrize("device", ["model", "fast", CHIP])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 20, 1), (5, 70, 9), (50, 33, 20)])
def test_products_of_words(shape, device):
    rows, inner, columns = shape
    a = np.random.default_rng(shape).integers(-(2**15), 2**15, (rows, inner), np.int16)
    a.flat[:1] = -(2**15)
    b = int8(inner, columns)
    arguments = {"zero_point": 7, "device": device, "config": NARROW}
    made = ops.matmul(a, b, "i16xi8", multiplier=2**30 + 999, shift=-15, **arguments)
    sums = a.astype(int) @ b.astype(int)
    for place, total in np.ndenumerate(sums):
        assert made[place] == np.clip(scaled(int(total), 2**30 + 999, -15) + 7, -128, 127)


def test_convolution_of_words():
    x = np.random.default_rng(4).integers(-(2**15), 2**15, (2, 7, 6, 3), np.int16)
    filters = int8(5, 3, 2, 3)
    common = {"stride": (2, 1), "dilation": (1, 2), "padding": (1, 0, 2, 1), "config": NARROW}
    made = ops.conv2d(x, filters, "i16xi8", multiplier=2**30, shift=-14, **common)
    image = np.pad(x.astype(int), ((0, 0), (1, 0), (2, 1), (0, 0)))
    for (number, row, column, channel), value in np.ndenumerate(made):
        window = image[number, 2 * row : 2 * row + 3, column : column + 3 : 2]
        total = int((window * filters[channel]).sum())
        assert value == np.clip(scaled(total, 2**30, -14), -128, 127)


#: Of results of int16: the bias's type, and the rule that it chooses.
RULES = [("int32", scaled), ("int64", scaled_wide)]


def check_words(made, sums, rule, multipliers, shifts):
    """Compare results with sums of shape (..., columns), scaled by column."""
    assert made.dtype == np.int16
    for place, total in np.ndenumerate(sums):
        value = rule(int(total), multipliers[place[-1]], shifts[place[-1]])
        assert made[place] == min(max(value, -(2**15)), 2**15 - 1)
    assert made.size < 50 or len(np.unique(made)) > 30


@pytest.mark.usefixtures("on_the_engine")
@pytest.mark.parametrize("device", ["model", "fast", CHIP])
@pytest.mark.parametrize(("bias_type", "rule"), RULES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 20, 1), (5, 70, 9), (50, 33, 20)])
def test_products_of_words_as_words(shape, bias_type, rule, device):
    rows, inner, columns = shape
    a, b = int16(rows, inner), int8(inner, columns)
    a.flat[:1] = -(2**15)
    bias = np.random.default_rng(3).integers(-(2**20), 2**20, columns).astype(bias_type)
    multipliers = [2**30 + 50_000_000 * column for column in range(columns)]
    shifts = [-7 - column % 3 for column in range(columns)]
    made = ops.matmul(
        *(a, b, "i16xi8"),
        **{"multiplier": multipliers, "shift": shifts, "bias": bias, "output": np.int16},
        **{"device": device, "config": NARROW},
    )
    check_words(made, a.astype(int) @ b.astype(int) + bias, rule, multipliers, shifts)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("bias_type", "rule"), RULES)
def test_products_of_words_of_any_shape_and_scale(bias_type, rule, seed):
    """On the engine if shifted sums fit 32 bits, else on the host."""
    generator = np.random.default_rng(seed)
    for number in range(20):
        rows, inner, columns = generator.integers(1, 40, 3).tolist()
        a, b = int16(rows, inner, seed=number), int8(inner, columns, seed=number)
        multiplier = int(generator.integers(2**30, 2**31))
        shift = int(generator.integers(-14, 8))
        bias = None if bias_type == "int32" else np.zeros(columns, np.int64)
        made = ops.matmul(
            *(a, b, "i16xi8"),
            **{"multiplier": multiplier, "shift": shift, "bias": bias, "output": "int16"},
            config=NARROW,
        )
        for place, total in np.ndenumerate(a.astype(int) @ b.astype(int)):
            value = (rule(int(total), multiplier, shift) + 2**31) % 2**32 - 2**31
            assert made[place] == min(max(value, -(2**15)), 2**15 - 1)


@pytest.mark.fast_cases(2)
@pytest.mark.usefixtures("on_the_engine")
@pytest.mark.parametrize(
    ("device", "count"), [("model", 12), pytest.param("rtl", 2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("bias_type", "rule"), RULES)
def test_convolutions_of_words_as_words(bias_type, rule, device, count, seed):
    generator = np.random.default_rng(seed)
    for number in range(count):
        depth, channels = generator.integers(1, 12, 2).tolist()
        x, filters = int16(2, 9, 8, depth, seed=number), int8(channels, 3, 2, depth, seed=number)
        top, bottom, left, right = generator.integers(0, 3, 4).tolist()
        down, across, step_y, step_x = generator.integers(1, 3, 4).tolist()
        bias = generator.integers(-(2**20), 2**20, channels).astype(bias_type)
        multipliers = generator.integers(2**30, 2**31, channels).tolist()
        shifts = generator.integers(-9, -6, channels).tolist()
        made = ops.conv2d(
            *(x, filters, "i16xi8"),
            **{"multiplier": multipliers, "shift": shifts, "bias": bias, "output": np.int16},
            **{"stride": (down, across), "dilation": (step_y, step_x)},
            **{"padding": (top, bottom, left, right), "device": device, "config": NARROW},
        )
        image = np.pad(x.astype(int), ((0, 0), (top, bottom), (left, right), (0, 0)))
        sums = np.zeros(made.shape, int)
        for row, column in np.ndindex(made.shape[1:3]):
            rows = slice(down * row, down * row + 2 * step_y + 1, step_y)
            columns = slice(across * column, across * column + step_x + 1, step_x)
            window = image[:, rows, columns]
            sums[:, row, column] = np.einsum("nhwd,chwd->nc", window, filters.astype(int)) + bias
        check_words(made, sums, rule, multipliers, shifts)


def test_more_rows_than_fit_at_once():
    a, b = int8(4100, 9), int8(9, 6)
    made = ops.matmul(a, b, multiplier=2**30, shift=-6, config="nano")
    same = [ops.matmul(part, b, multiplier=2**30, shift=-6) for part in np.array_split(a, 7)]
    assert np.array_equal(made, np.concatenate(same))


def test_an_operation_is_compiled_once(monkeypatch):
    a, b = int8(4, 6, seed=9), int8(6, 5, seed=9)
    first = ops.matmul(a, b, **UNSCALED)
    monkeypatch.setattr(sessions, "compile_network", None)
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


def test_threads_take_turns():
    def work(seed):
        a, b = int8(9, 17, seed=seed), int4(17, 11, seed=seed).astype(np.int8)
        mode = ("i8xi8", "i8xi4")[seed % 2]
        made = [ops.matmul(a, b, mode, config=NARROW) for _ in range(3)]
        return all(np.array_equal(each, a.astype(int) @ b.astype(int)) for each in made)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(12)))
