"""Floating-point matrix products, compared with NumPy's float32 in the stated order."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import matloom
from matloom import ops
from matloom.arch.config import PRESETS
from matloom.arch.isa import Destination
from matloom.arch.modes import FLOAT_MODES
from matloom.compiler import CheckError, CompileOptions, compile_network, compile_unchecked
from matloom.ir.attributes import FullyConnected
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.ops import float_products
from matloom.schedule.commands import emit

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
WIDE = dataclasses.replace(
    PRESETS["small"], weight_rows=2, float_rows=4, mac_modes=("i8xi8", "bf16", "fp16")
)


def product(a, b, elements):
    """Add products in balanced trees of `float_rows` elements, each tree to the sum so far."""
    missing = -a.shape[1] % elements
    a = np.pad(a.astype(np.float32), ((0, 0), (0, missing)))
    b = np.pad(b.astype(np.float32), ((0, missing), (0, 0)))
    total = None
    with np.errstate(all="ignore"):
        for first in range(0, a.shape[1], elements):
            terms = [np.outer(a[:, k], b[k]) for k in range(first, first + elements)]
            while len(terms) > 1:
                terms = [left + right for left, right in zip(terms[::2], terms[1::2], strict=True)]
            total = terms[0] if total is None else total + terms[0]
    return total


def numbers(generator, shape, mode, *, wild=False):
    """Return ordinary numbers, or arbitrary patterns including subnormals, infinities and NaN."""
    dtype = np.dtype(DTYPES[mode])
    if wild:
        raw = generator.integers(0, 256**dtype.itemsize, shape)
        return raw.astype(f"u{dtype.itemsize}").view(dtype)
    return generator.standard_normal(shape).astype(dtype)


def assert_same(found, wanted):
    """Compare bit for bit, except for the payload of a NaN."""
    assert found.dtype == wanted.dtype
    wide = [each.astype(np.float32) for each in (found, wanted)]
    nan = np.isnan(wide[1])
    assert np.array_equal(np.isnan(wide[0]), nan)
    bits = f"u{found.dtype.itemsize}"
    assert np.array_equal(found.view(bits)[~nan], wanted.view(bits)[~nan])


@pytest.mark.fast_cases(13)
@pytest.mark.parametrize("mode", FLOAT_MODES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 9), (70, 130, 33), (3, 700, 5)])
@pytest.mark.parametrize("wild", [False, True], ids=["ordinary", "wild"])
def test_products(mode, shape, wild):
    generator = np.random.default_rng(shape)
    rows, inner, columns = shape
    a = numbers(generator, (rows, inner), mode, wild=wild)
    b = numbers(generator, (inner, columns), mode, wild=wild)
    assert_same(ops.matmul(a, b, mode, config=CONFIG), product(a, b, CONFIG.float_rows))


@pytest.mark.parametrize("mode", FLOAT_MODES)
def test_epilogue(mode):
    generator = np.random.default_rng(1)
    a, b = (numbers(generator, shape, mode) for shape in ((21, 30), (30, 13)))
    bias = generator.standard_normal(13).astype(np.float32)
    residual = numbers(generator, (21, 13), mode)
    total = (product(a, b, CONFIG.float_rows) + residual.astype(np.float32)) + bias
    made = ops.matmul(
        a, b, mode, bias=bias, residual=residual, output=DTYPES[mode], limits=(0, 6), config=CONFIG
    )
    assert_same(made, np.clip(total, 0, 6).astype(DTYPES[mode]))
    made = ops.matmul(a, b, mode, bias=bias, residual=residual.astype(np.float32), config=CONFIG)
    assert_same(made, total)


@pytest.mark.parametrize(
    ("mode", "shape"), [("fp8_e4m3", (2, 9001, 5)), ("fp16", (21, 2050, 9)), ("bf16", (1, 4097, 3))]
)
def test_inner_sizes_beyond_the_scratchpad(mode, shape):
    generator = np.random.default_rng(shape)
    rows, inner, columns = shape
    a = numbers(generator, (rows, inner), mode)
    b = numbers(generator, (inner, columns), mode)
    assert_same(ops.matmul(a, b, mode, config=CONFIG), product(a, b, CONFIG.float_rows))


def test_a_tile_beyond_the_scratchpad():
    config = dataclasses.replace(
        WIDE, rows=64, columns=64, lanes=16, spad_bytes=4096, spad_banks=1, acc_bytes=16384
    )
    ones = np.ones((2, 2), np.float16)
    with pytest.raises(
        ValueError, match=r"must run on the engine: .* needs \d+ bytes of scratchpad"
    ):
        ops.matmul(ones, ones, "fp16", config=config)


def test_either_byte_order():
    generator = np.random.default_rng(4)
    a, b = (numbers(generator, shape, "fp16") for shape in ((4, 9), (9, 6)))
    swapped = [each.astype(">f2") for each in (a, b)]
    assert_same(ops.matmul(*swapped, "fp16", config=CONFIG), product(a, b, CONFIG.float_rows))


def test_float32_is_rounded_to_the_mode():
    generator = np.random.default_rng(2)
    a, b = (generator.standard_normal(shape).astype(np.float32) for shape in ((4, 9), (9, 6)))
    rounded = [each.astype(ml_dtypes.bfloat16) for each in (a, b)]
    assert_same(ops.matmul(a, b, "bf16", config=WIDE), product(*rounded, elements=WIDE.float_rows))


@pytest.mark.parametrize("mode", ["bf16", "fp16"])
def test_a_dense_layer_of_more_steps_than_one_exec_counts(mode):
    generator = np.random.default_rng(7)
    weights = generator.standard_normal((9, 1101)).astype(np.float32)
    tensors = {
        0: Tensor(name="x", shape=(5, 1101), dtype="float32"),
        1: Tensor(name="w", shape=weights.shape, dtype="float32", data=weights),
        2: Tensor(name="y", shape=(5, 9), dtype="float32"),
    }
    attributes = FullyConnected()
    node = Node(op=Op.FULLY_CONNECTED, inputs=(0, 1), outputs=(2,), attributes=attributes, index=0)
    graph = Graph(name="dense", inputs=(0,), outputs=(2,), tensors=tensors, nodes=(node,))
    program = compile_network(graph, CONFIG, precision=mode, check="full")
    assert {layer.where for layer in program.layers} == {"engine"}
    assert program.verdict.fallback == ""


@pytest.mark.slow
@pytest.mark.parametrize("config", [CONFIG, WIDE], ids=["4x4", "8x8"])
def test_chip(config):
    """All modes in sequence on the simulated chip, with an integer product in between."""
    generator = np.random.default_rng(3)
    for mode in config.float_modes:
        for wild in (False, True):
            a = numbers(generator, (37, 45), mode, wild=wild)
            b = numbers(generator, (45, 19), mode, wild=wild)
            residual = numbers(generator, (37, 19), mode)
            bias = generator.standard_normal(19).astype(np.float32)
            total = (product(a, b, config.float_rows) + residual.astype(np.float32)) + bias
            with np.errstate(all="ignore"):
                wanted = total.astype(DTYPES[mode])
            made = ops.matmul(
                a,
                b,
                mode,
                bias=bias,
                residual=residual,
                output=DTYPES[mode],
                config=config,
                device="rtl",
            )
            assert_same(made, wanted)
        left, right = (generator.integers(-128, 128, each, np.int8) for each in ((9, 5), (5, 7)))
        made = ops.matmul(left, right, multiplier=2**30, shift=1, config=config, device="rtl")
        assert np.array_equal(made, np.clip(left.astype(int) @ right.astype(int), -128, 127))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "shape", "adds"),
    [
        ("fp16", (37, 45, 19), True),
        ("bf16", (64, 64, 16), False),
        ("fp8_e4m3", (20, 1100, 9), True),
        ("fp16", (1, 700, 12), False),
    ],
)
def test_cycles_on_the_chip_are_as_predicted(monkeypatch, mode, shape, adds):
    """Within 5 % or 50 cycles, with a residual, and with more steps than one EXEC has."""
    generator = np.random.default_rng(shape)
    rows, inner, columns = shape
    a, b = numbers(generator, (rows, inner), mode), numbers(generator, (inner, columns), mode)
    residual = generator.standard_normal((rows, columns)).astype(np.float32)
    program = compile_network(
        graph_of(monkeypatch, a, b, mode, CONFIG, residual=residual if adds else None), CONFIG
    )
    with matloom.load(program, device="rtl") as session:
        session.run({info.name: np.zeros(info.shape, info.dtype) for info in program.inputs})
        cycles = session.report().cycles
    assert abs(cycles - program.predicted_cycles) <= max(50, 0.05 * cycles)


@pytest.mark.parametrize("mode", FLOAT_MODES)
def test_without_a_configuration_the_reference_gets_the_mode(mode):
    generator = np.random.default_rng(16)
    a, b = numbers(generator, (9, 21), mode), numbers(generator, (21, 18), mode)
    assert_same(ops.matmul(a, b, mode), product(a, b, PRESETS["reference"].float_rows))


def graph_of(monkeypatch, a, b, mode, config, **epilogue):
    """Return a product as a network."""
    found = []

    class Sessions:
        def find(self, graph, config, device):
            found.append(graph)
            return self

        def run(self, inputs):
            return {"result": np.zeros((), np.uint32)}

    monkeypatch.setattr(float_products, "SESSIONS", Sessions())
    ops.matmul(a, b, mode, config=config, **epilogue)
    (graph,) = found
    return graph


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("mode", "shape"), [("bf16", (37, 45, 19)), ("fp8_e4m3", (30, 1100, 9)), ("fp16", (9, 20, 70))]
)
@pytest.mark.parametrize("tiling_seed", [None, 1, 2, 3])
def test_meaning_and_runs_are_checked_however_tiles_lie(monkeypatch, mode, shape, tiling_seed):
    generator = np.random.default_rng(shape)
    rows, inner, columns = shape
    a, b = numbers(generator, (rows, inner), mode), numbers(generator, (inner, columns), mode)
    residual = generator.standard_normal((rows, columns)).astype(np.float32)
    graph = graph_of(monkeypatch, a, b, mode, CONFIG, residual=residual, limits=(-2, 6))
    options = CompileOptions(tiling_seed=tiling_seed)
    verdict = compile_network(graph, CONFIG, options, check="full").verdict
    assert (verdict.stages, verdict.share, verdict.fallback) == ((1, 1), 1.0, "")


def test_a_residual_that_replaces_the_sums_is_noticed(monkeypatch):
    """The check of meaning notices; the functional model just runs the instructions."""
    generator = np.random.default_rng(5)
    a, b = numbers(generator, (9, 12), "fp16"), numbers(generator, (12, 9), "fp16")
    residual = generator.standard_normal((9, 9)).astype(np.float32)
    graph = graph_of(monkeypatch, a, b, "fp16", CONFIG, residual=residual)
    found = compile_unchecked(graph, CONFIG, CompileOptions())
    assert found.prove() == (1, 1)
    right, wrong = emit.second_input, {"destination": Destination.ACC_SET}
    monkeypatch.setattr(emit, "second_input", lambda *given: {**right(*given), **wrong})
    found = compile_unchecked(graph, CONFIG, CompileOptions())
    with pytest.raises(CheckError, match="result"):
        found.prove()


def test_more_rows_and_columns_than_a_program_has():
    generator = np.random.default_rng(6)
    a, b = numbers(generator, (4100, 2), "fp16"), numbers(generator, (2, 3), "fp16")
    assert_same(ops.matmul(a, b, "fp16", config=WIDE), product(a, b, WIDE.float_rows))
    a, b = numbers(generator, (2, 3), "fp16"), numbers(generator, (3, 8200), "fp16")
    residual = numbers(generator, (2, 8200), "fp16")
    bias = generator.standard_normal(8200).astype(np.float32)
    made = ops.matmul(a, b, "fp16", bias=bias, residual=residual, output=np.float16, config=WIDE)
    total = (product(a, b, WIDE.float_rows) + residual.astype(np.float32)) + bias
    assert_same(made, total.astype(np.float16))


@pytest.mark.parametrize("shape", [(128, 128, 64), (3, 5000, 40)])
def test_a_residual_beyond_the_scratchpad(shape):
    generator = np.random.default_rng(shape)
    rows, inner, columns = shape
    a, b = numbers(generator, (rows, inner), "bf16"), numbers(generator, (inner, columns), "bf16")
    residual = generator.standard_normal((rows, columns)).astype(np.float32)
    made = ops.matmul(a, b, "bf16", residual=residual, config=CONFIG)
    assert_same(made, product(a, b, CONFIG.float_rows) + residual)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"b": np.zeros((4, 2), np.float16)},
            "a must have 4 columns, the number of b's rows, not 3",
        ),
        ({"a": np.zeros((3,), np.float16)}, r"a must have 2 axes and an element, not shape \(3,\)"),
        ({"a": np.zeros((2, 3), np.int8)}, "a dtype must be one of float32, .*, not int8"),
        ({"a": np.zeros((2, 3), ml_dtypes.bfloat16)}, "numbers must be float32 or fp16, not"),
        ({"bias": np.zeros(3, np.float32)}, r"bias must have the shape \(2,\), not \(3,\)"),
        ({"bias": np.zeros(2)}, "bias must be float32, not float64"),
        ({"residual": np.zeros((2, 3))}, r"residual must have the shape \(2, 2\)"),
        ({"limits": (0.0, 5.5)}, r"a limit must be a number that float8_e5m2 holds, not 5\.5"),
        ({"output": np.float64}, "a dtype must be one of float32"),
        ({"limits": (6, 0)}, r"limits must be two numbers in ascending order, not \(6, 0\)"),
        ({"limits": 6}, "limits must be two numbers in ascending order, not 6"),
        ({"multiplier": 2**30, "shift": 0}, "multiplier must go with a mode of integers, not fp16"),
        ({"input_zero_point": 1}, "input_zero_point must go with a mode of integers, not fp16"),
        ({"mode": "bf16", "config": "small"}, "mode must be one that the configuration has"),
    ],
)
def test_refusals(change, sentence):
    given = {"a": np.zeros((2, 3), np.float16), "b": np.zeros((3, 2), np.float16), "mode": "fp16"}
    with pytest.raises((ValueError, TypeError), match=sentence):
        ops.matmul(**{"config": CONFIG, **given, **change})
