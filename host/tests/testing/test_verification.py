"""The verb verify: what steps come to, what is said of them, and what is refused."""

import json
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from matloom import cli
from matloom.arch.config import load_config
from matloom.coverage.coverage import Coverage
from matloom.testing import regression, verification
from matloom.testing.verification import FAILED, INCOMPLETE, NOT_RUN, PASSED, Step, Verification
from matloom.testing.verification_report import to_html

NANO = load_config("nano")


def verified(*verdicts):
    steps = [Step(name=f"step {n}", verdict=each, detail="<b>") for n, each in enumerate(verdicts)]
    return Verification(
        name="mine & yours",
        config=NANO,
        seed=3,
        minutes=1.5,
        steps=steps,
        coverage=Coverage(NANO),
    )


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([PASSED, NOT_RUN], PASSED),
        ([PASSED, INCOMPLETE, NOT_RUN], INCOMPLETE),
        ([INCOMPLETE, FAILED, PASSED], FAILED),
    ],
)
def test_the_verdict_is_the_worst_of_what_ran(verdicts, verdict):
    found = verified(*verdicts)
    assert found.verdict == found.as_dict()["verdict"] == verdict
    assert found.failed == (verdict == FAILED)
    assert f"<h1>Verification of mine &amp; yours: {verdict}</h1>" in to_html(found)


def test_the_page_says_what_is_missing_and_why_not_more():
    page = to_html(verified(PASSED))
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "EXEC i8xi8: width first steady" in page
    assert "EXEC i8xi8: width 4095: no more than 256 fits in the memories" in page


@dataclass
class Claim:
    verdict: str
    unit: str = "a queue"
    statement: str = "loses nothing"
    detail: str = "no solver"


@pytest.mark.parametrize(
    ("claims", "verdict"),
    [
        (["PROVEN", "PROVEN"], PASSED),
        (["PROVEN", "NOT RUN"], INCOMPLETE),
        (["PROVEN", "FAILED", "NOT RUN"], FAILED),
        (["NOT RUN"], NOT_RUN),
        ([], NOT_RUN),
    ],
)
def test_proofs_are_one_step(claims, verdict):
    asked = []

    def prover(config, minutes, *, say):
        asked.append((config, minutes))
        return [Claim(each) for each in claims]

    run = verification._Run(
        verification=verified(), end=float("inf"), say=lambda line: None, shares={}
    )
    step = Step(name="proofs")
    verification._proofs(run, prover, step, 90.0)
    assert asked == [(NANO, 1.5)]
    assert step.verdict == verdict


def test_what_a_step_raises_is_a_failure():
    lines = []
    run = verification._Run(
        verification=verified(), end=float("inf"), say=lines.append, shares={"streams": 1}
    )

    def body(step, seconds):
        raise AssertionError("external memory differs")

    verification._step(run, "streams", body)
    (step,) = run.verification.steps
    assert (step.verdict, step.detail) == (FAILED, "AssertionError: external memory differs")
    assert lines == ["streams: FAILED, AssertionError: external memory differs"]


def test_the_regression_is_in_a_clone(monkeypatch, tmp_path):
    monkeypatch.setattr(regression, "_BENCHES", tmp_path)
    assert regression.why_no_regression() == (
        "the testbenches, sim_tests/, are in a clone of the project only"
    )


@pytest.mark.parametrize(
    ("text", "seconds", "passed", "summary"),
    [
        ("def test(): pass", 60, True, "1 passed"),
        ("def test(): assert 0", 60, False, "1 failed"),
        ("import time\ndef test(): time.sleep(60)", 1, None, "no time was left"),
    ],
)
def test_the_regression_ends_in_time(monkeypatch, tmp_path, text, seconds, passed, summary):
    (tmp_path / "test_chip.py").write_text(text)
    monkeypatch.setattr(regression, "_BENCHES", tmp_path)
    outcome = regression.regression(NANO, tmp_path, seconds)
    assert outcome.passed is passed
    assert outcome.summary.startswith(summary)
    assert load_config(tmp_path / "config.json") == NANO


@pytest.mark.parametrize(("verdict", "status"), [(PASSED, 0), (INCOMPLETE, 0), (FAILED, 1)])
def test_the_exit_status_says_whether_anything_failed(tmp_path, monkeypatch, verdict, status):
    def pretend(found, **_options):
        found.steps.append(Step(name="streams", verdict=verdict, detail="so"))

    monkeypatch.setattr(verification, "verify", pretend)
    words = ["verify", "--config", "nano", "--seed", "5", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(cli.cli, words)
    assert result.exit_code == status
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["verdict"], report["seed"]) == (verdict, 5)
    assert verdict in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--minutes", "0"], "--minutes"),
        (["--seed", "-1"], "--seed"),
        (["--config", "none.json"], "none.json"),
        (["--config", "nano", "-o", "taken"], "taken"),
    ],
)
def test_mistakes_are_sentences(tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    monkeypatch.setattr("sys.argv", ["matloom", "verify", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
def test_a_chip_that_rounds_otherwise_is_noticed(tmp_path, monkeypatch):
    """The model has the mistake: the two differ as they would with one in the chip."""
    model = "matloom.device.model.post.clamp"
    monkeypatch.setattr(model, lambda values, low, high: values.clip(low + 1, high))
    monkeypatch.setattr(verification, "why_no_regression", lambda: "not now")
    found = verified()
    found.minutes = 10  # each step ends with its first failure; the simulator may have to be built
    verification.verify(found, prover=None, folder=tmp_path, say=lambda line: None)
    verdicts = {step.name: step.verdict for step in found.steps}
    assert verdicts == {
        "coverage": FAILED,
        "streams": FAILED,
        "regression": NOT_RUN,
        "proofs": NOT_RUN,
    }
    assert "external memory differs" in found.steps[0].detail


@pytest.mark.slow
def test_nano_reaches_every_point(tmp_path, monkeypatch):
    monkeypatch.setattr(verification, "why_no_regression", lambda: "not now")
    monkeypatch.setattr(verification, "_streams", lambda *_run: None)
    found = verified()
    found.minutes = 8
    verification.verify(found, prover=None, folder=tmp_path, say=lambda line: None)
    assert found.steps[0].verdict == PASSED, found.steps[0]
    assert found.coverage.missing() == []
