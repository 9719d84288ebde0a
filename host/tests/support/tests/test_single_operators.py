"""Random files of one operator: as TensorFlow Lite Micro or LiteRT run them, or refused."""

import pytest

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators.campaign import draw_case, judge
from single_operators.rarer_operators import RARER_OPERATORS
from single_operators.reference import References


def failures(first, count):
    """Return the failures of some seeds; repeat one with --first SEED --count 1."""
    with References() as references:
        verdicts = (judge(draw_case(seed), references) for seed in range(first, first + count))
        return [str(verdict) for verdict in verdicts if verdict.failed]


def test_a_few_files(seed):
    assert not failures(100_000 * seed, 30)


def test_an_output_whose_size_depends_on_values_may_occur_twice():
    with References() as references:
        case = draw_case(0, "UNIQUE")
        assert "twice" in str(judge(case, references))
        assert not judge(case, references).failed


@pytest.mark.slow
def test_a_hundred_files(seed):
    """`make fuzz-operators` runs thousands."""
    assert not failures(100_000 * seed + 30, 70)


@pytest.mark.slow
def test_rarer_operators(seed):
    with References() as references:
        cases = (draw_case(seed, name) for name in RARER_OPERATORS)
        verdicts = [judge(case, references) for case in cases]
        assert not [str(verdict) for verdict in verdicts if verdict.failed]
