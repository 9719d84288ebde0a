"""Random files of one operator: as TensorFlow Lite Micro or LiteRT run them, or refused."""

import pytest
from click.testing import CliRunner

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators import __main__ as program
from single_operators.campaign import Verdict, draw_case, judge
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


def test_files_that_fail_are_kept_in_a_new_folder(tmp_path, monkeypatch):
    case = draw_case(0, "ADD")
    failed = [(0, [Verdict(case=case, kind="wrong")])]
    monkeypatch.setattr(program, "run_as_completed", lambda *_: failed)
    words = ["--count", "1", "--save", str(tmp_path / "kept" / "here")]
    assert CliRunner().invoke(program.main, words).exit_code == 1
    assert (tmp_path / "kept" / "here" / "0.tflite").read_bytes() == case.content


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
