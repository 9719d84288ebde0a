"""Operators at the ends of their scales, against TensorFlow Lite Micro or else LiteRT."""

import itertools

import numpy as np
import pytest

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators.builder import Builder
from single_operators.campaign import draw_case, judge
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file
from single_operators.operators import OPERATORS
from single_operators.reference import References


@pytest.fixture(scope="module")
def references():
    with References() as found:
        yield found


def unary(name, scales, zeros, dtype="int8"):
    """Return a file of an operator that maps every 8-bit number to another scale."""
    given, made = (
        FileTensor(name=f"t{at}", shape=(1, 256), dtype=dtype, scales=(scale,), zeros=(zero,))
        for at, (scale, zero) in enumerate(zip(scales, zeros, strict=True))
    )
    operator = FileOperator(name=name, inputs=(0,), outputs=(1,))
    return write_file(
        FileNetwork(tensors=(given, made), operators=(operator,), inputs=(0,), outputs=(1,))
    )


@pytest.mark.parametrize("zeros", [(0, 0), (-128, 127), (127, -128), (3, -7)], ids=str)
@pytest.mark.parametrize("ratio", [2.0**power for power in range(-6, 24, 3)] + [511.0, 513.0, 1e6])
def test_hard_swish_at_any_ratio(zeros, ratio, references):
    every = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)
    for scale in (1e-5, 0.01, 0.05):
        content = unary("HARD_SWISH", (scale, scale * ratio), zeros)
        wanted = references.ask("tflm", content, [[every]])
        assert wanted.ran, wanted.refusal
        found = references.ask("matloom:nano", content, [[every]])
        assert found.ran, found.refusal
        np.testing.assert_array_equal(found.calls[0][0], wanted.calls[0][0], err_msg=str(scale))


@pytest.mark.parametrize("name", ["SQRT", "RSQRT"])
def test_roots_that_only_the_largest_number_has(name, references):
    """Compilation tries an operator on inputs of its own, and most of these have no root."""
    content = unary(name, (0.5, 0.25), (127, 3))
    largest = np.full((1, 256), 127, np.int8)
    wanted = references.ask("litert", content, [[largest]])
    assert wanted.ran, wanted.refusal
    found = references.ask("matloom:nano", content, [[largest]])
    assert found.ran, found.refusal
    np.testing.assert_array_equal(found.calls[0][0], wanted.calls[0][0])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "operator", ["HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "TANH", "RELU6", "SUB"]
)
def test_random_scales(operator, seed, references):
    for number in range(10):
        verdict = judge(draw_case(1000 * seed + number, operator, odd=False), references)
        assert not verdict.failed, str(verdict)


@pytest.mark.fast_cases(8)
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_with_scales_far_apart(operator, seed, references):
    """Scales from 1e-37 to 1e37, and zero points at the ends of their types."""
    extreme = (number for number in itertools.count(1000 * seed) if Builder(number).extreme)
    for number in itertools.islice(extreme, 3):
        verdict = judge(draw_case(number, operator, odd=False), references)
        assert not verdict.failed, str(verdict)
