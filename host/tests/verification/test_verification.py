"""The command verify: results of steps, the report, and refusals."""

import hashlib
import json
import shlex
import signal
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from html import escape
from importlib import metadata
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

import matloom
from matloom import cli
from matloom.arch.config import load_config
from matloom.cli import verify as verify_command
from matloom.coverage.coverage import Coverage
from matloom.errors import UserError
from matloom.toolchain import verilator
from matloom.toolchain.process import ToolError
from matloom.verification import campaign, plan, regression, replays, streams
from matloom.verification.checks import CHECKS, MismatchError
from matloom.verification.junit import to_junit
from matloom.verification.plan import Prover
from matloom.verification.report import to_html
from matloom.verification.verdicts import (
    FAILED,
    INCOMPLETE,
    NOT_RUN,
    PASSED,
    STEPS,
    Case,
    Step,
    Verification,
)
from matloom.workers import TaskRunner, processes
from matloom_rtl import formal
from matloom_rtl.formal import engine
from matloom_rtl.generate import generate
from matloom_rtl.lint import WAIVERS

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
        ([NOT_RUN, NOT_RUN], NOT_RUN),
    ],
)
def test_the_verdict_is_that_of_the_worst_step(verdicts, verdict):
    found = verified(*verdicts)
    assert found.verdict == found.as_dict()["verdict"] == verdict
    # Of what nothing ran, nothing is known: no script may take that for a pass.
    assert found.failed == (verdict in (FAILED, NOT_RUN))
    assert f"<h1>Verification of mine &amp; yours: {verdict}</h1>" in to_html(found)


def test_the_page_names_steps_that_did_not_run():
    found = verified(PASSED, NOT_RUN, INCOMPLETE, NOT_RUN)
    assert found.as_dict()["not_run"] == ["step 1", "step 3"]
    assert "Not run, so not covered: step 1, step 3." in to_html(found)
    assert "Not run" not in to_html(verified(PASSED))


def test_the_report_names_the_versions_that_it_is_about():
    found = verified(PASSED)
    assert found.versions["matloom"] == matloom.__version__
    assert found.as_dict()["versions"] == found.versions
    assert f"verilator {metadata.version('verilator')}" in to_html(found)


def test_the_page_lists_missing_points_by_reason():
    page = to_html(verified(PASSED))
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "No program ran" in page
    found = verified(PASSED)
    found.coverage.runs = 1
    page = to_html(found)
    assert "EXEC i8xi8: width first steady" in page
    assert "EXEC i8xi8: width 4095: no more than 256 fits in the memories" in page


def test_the_page_has_date_times_and_command():
    found = verified(PASSED, INCOMPLETE)
    found.started = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
    found.source, found.only = "my chip.json", ("streams", "proofs")
    found.steps[0].seconds, found.steps[1].seconds, found.steps[1].remaining = 30.0, 45.0, 200.0
    page = to_html(found)
    assert "4 March 2026, 05:06 UTC; 1.2 of 1.5 minutes" in page
    command = "matloom verify --config 'my chip.json' --minutes {} --seed 3 --only streams"
    assert escape(command.format(1.5), quote=False) in page
    assert "About 5 minutes would complete it" in page
    assert escape(command.format(5), quote=False) in page
    assert found.as_dict()["complete_minutes"] == 5
    found.steps[1].remaining = 0
    assert "would complete it" not in to_html(found)


def test_points_without_a_hit_are_counted_by_reason():
    found = verified(PASSED)
    found.coverage.runs = 1
    absent, model = found.coverage.unreached_by_reason(), found.coverage.model
    assert sum(absent.values()) == len(found.coverage.missing()) + len(model.excluded)
    assert absent["declared in wait, and not reached yet"] == len(model.points["wait"])
    for why, count in absent.items():
        cells = f'<th scope="row">{escape(why, quote=False)}</th><td class="number">{count:,}</td>'
        assert cells in to_html(found)


def test_faults_that_were_provoked_are_no_failures():
    step = Step(name="streams", verdict=PASSED, detail="equal", figures={"faults": 44})
    assert step.sentence == "equal; 44 provoked faults (all reported)"
    step.verdict = FAILED
    assert step.sentence == "equal; 44 provoked faults"


def test_continuous_integration_reads_every_verdict():
    found = verified(PASSED, INCOMPLETE, FAILED, NOT_RUN)
    found.steps[2].lines = ["external memory differs at <3>"]
    found.steps[1].cases = [
        Case(name="a queue: loses nothing", verdict="PROVEN", seconds=2.5),
        Case(name="a gate: waits", verdict="NOT RUN", detail="no time"),
    ]
    root = ElementTree.fromstring(to_junit(found))
    counts = [(s.get("tests"), s.get("failures"), s.get("skipped")) for s in root]
    assert counts == [("1", "0", "0"), ("3", "0", "2"), ("1", "1", "0"), ("1", "0", "1")]
    assert root.find(".//failure").text == "external memory differs at <3>"
    skipped = [each.get("message") for each in root.iter("skipped")]
    assert skipped == ["NOT RUN: no time", "INCOMPLETE: <b>", "NOT RUN: <b>"]


@pytest.mark.parametrize(
    ("only", "taken"),
    [
        (("streams",), {"simulator", "streams"}),
        (("proofs",), {"proofs"}),
        (("coverage", "verilog"), {"verilog", "simulator", "coverage"}),
        ((), {"verilog", "simulator", "coverage", "streams", "regression", "proofs"}),
    ],
)
def test_only_some_steps_are_taken(monkeypatch, only, taken):
    monkeypatch.setattr(plan, "why_no_simulator", lambda: "")
    monkeypatch.setattr(plan, "why_no_regression", lambda: "")
    found = verified()
    found.only = only
    why_not = plan.why_not_run(found, Prover(run=None, expected=None))
    assert {name for name, why in why_not.items() if not why} == taken
    assert set(why_not.values()) <= {"", "left out by --only"}


def test_the_shortest_step_that_can_be_completed_comes_first():
    expected = {"coverage": 90.0, "regression": 20.0, "proofs": 40.0}
    order = sorted(STEPS, key=lambda name: plan.position_of(name, expected))
    assert order == ["verilog", "simulator", "regression", "proofs", "coverage", "streams"]


def test_time_share_of_a_step():
    run = a_run(say=None, expected={"coverage": 10.0, "regression": 20.0, "proofs": 500.0})
    run.verification.minutes = 10
    run.end = time.monotonic() + 600
    # A tenth is for streams; three shares of the rest.
    assert run.seconds_for("coverage") == pytest.approx(540 / 3, abs=1)
    run.end = time.monotonic() + 100
    assert run.seconds_for("regression") == pytest.approx(40, abs=1)
    assert run.seconds_for("proofs") == pytest.approx(40, abs=1)
    assert run.seconds_for("streams") == pytest.approx(100, abs=1)


@dataclass
class Claim:
    verdict: str
    unit: str = "a queue"
    statement: str = "loses nothing"
    detail: str = "no solver"
    seconds: float = 30.0


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
def test_proofs_are_one_step(monkeypatch, claims, verdict):
    asked = []

    def prover(config, minutes, *, say):
        asked.append((config, minutes))
        return [Claim(each) for each in claims]

    run = a_run(say=lambda line: None)
    monkeypatch.setattr(campaign._Run, "seconds_for", lambda run, name: 90.0)
    step = Step(name="proofs")
    campaign._run_proofs(run, Prover(run=prover, expected=lambda config: 5.0), step)
    assert asked == [(NANO, 1.5)]
    assert step.verdict == verdict
    assert [case.verdict for case in step.cases] == claims
    assert step.remaining == 30 * claims.count("NOT RUN")


HERE = TaskRunner(make=partial(processes, 1))


def a_run(**options):
    return campaign._Run(verification=verified(), end=float("inf"), **options)


def test_an_exception_in_a_step_is_a_failure():
    lines = []
    run = a_run(say=lines.append)

    def body(step):
        step.detail = "seed 8, steered stream 3"
        raise AssertionError("external memory differs")

    campaign._run_step(run, "streams", body)
    (step,) = run.verification.steps
    assert step.lines[0] == "it failed at: seed 8, steered stream 3"
    assert (step.verdict, step.detail) == (FAILED, "AssertionError: external memory differs")
    assert lines == ["streams: FAILED, AssertionError: external memory differs"]


def test_an_interruption_ends_a_step_and_those_after_it():
    run = a_run(say=lambda line: None)

    def body(step):
        step.figures["streams"] = 7
        raise KeyboardInterrupt

    campaign._run_step(run, "streams", body)
    campaign._run_step(run, "proofs", lambda step: pytest.fail("it began"))
    ended, never = run.verification.steps
    assert (ended.verdict, ended.detail, ended.figures) == (
        INCOMPLETE,
        "interrupted",
        {"streams": 7},
    )
    assert (never.verdict, never.detail) == (NOT_RUN, "interrupted before")


def no_complaint(config, folder):
    return "matloom.v", []


def run(found, folder, *, linter=no_complaint, prover="not now"):
    """Run the campaign in this process."""
    campaign.verify(
        found, linter=linter, prover=prover, folder=folder, say=lambda line: None, tasks=HERE
    )


def verdicts_of(found):
    return {step.name: (step.verdict, step.detail) for step in found.steps}


def test_without_a_compiler_the_proofs_are_left(monkeypatch, tmp_path):
    missing_requirements = "g++ is missing"
    monkeypatch.setattr(plan, "why_no_simulator", lambda: missing_requirements)
    found, asked = verified(), []

    def prover(config, minutes, *, say):
        asked.append(minutes)
        return [Claim("PROVEN")]

    all_claims = Prover(run=prover, expected=lambda config: 5.0)
    run(found, tmp_path, prover=all_claims)
    simulated = ("verilog", "simulator", "coverage", "streams", "regression")
    assert verdicts_of(found) == {
        **dict.fromkeys(simulated, (NOT_RUN, missing_requirements)),
        "proofs": (PASSED, "1 PROVEN"),
    }
    # The time of all the others is theirs, but for that of streams.
    assert asked == [pytest.approx(1.35, abs=0.1)]


def test_a_simulator_that_cannot_be_built_is_a_failure(monkeypatch, tmp_path):
    def build(*arguments, **options):
        raise ToolError("verilator failed with status 1: %Error: matloom.v:3")

    monkeypatch.setattr(streams, "CoveredTransport", build)
    monkeypatch.setattr(plan, "why_no_regression", lambda: "not now")
    found = verified()

    def linter(config, folder):
        return "1 warning", ["WIDTH: matloom.v:3"]

    run(found, tmp_path, linter=linter, prover="no solver")
    assert verdicts_of(found) == {
        "verilog": (FAILED, "1 warning"),
        "simulator": (FAILED, "ToolError: verilator failed with status 1: %Error: matloom.v:3"),
        "coverage": (NOT_RUN, "the simulator was not built"),
        "streams": (NOT_RUN, "the simulator was not built"),
        "regression": (NOT_RUN, "not now"),
        "proofs": (NOT_RUN, "no solver"),
    }
    assert found.steps[0].lines == ["WIDTH: matloom.v:3"]


def test_a_missing_compiler_is_reported(monkeypatch):
    assert plan.why_no_simulator() == ""
    monkeypatch.setattr(verilator.shutil, "which", lambda name: None)
    verilator.find_verilator.cache_clear()
    assert plan.why_no_simulator().startswith("g++ is missing")


@pytest.mark.slow
def test_the_verilog_is_that_of_generate(tmp_path):
    sentence, complaints = verify_command._lint(NANO, tmp_path)
    assert complaints == []
    text = generate(NANO).verilog
    assert (tmp_path / "matloom.v").read_text() == text
    assert hashlib.sha256(text.encode()).hexdigest() in sentence


@pytest.mark.slow
def test_an_unwaived_warning_is_reported(tmp_path, monkeypatch):
    waived = {kind: why for kind, why in WAIVERS.items() if kind != "UNUSEDSIGNAL"}
    monkeypatch.setattr("matloom_rtl.lint.WAIVERS", waived)
    _sentence, complaints = verify_command._lint(NANO, tmp_path)
    assert {each.kind for each in complaints} == {"UNUSEDSIGNAL"}


@pytest.mark.parametrize("lacks", ["yowasp-sby is not installed", ""])
def test_no_claim_is_tried_where_a_tool_is_missing(monkeypatch, lacks):
    monkeypatch.setattr(engine, "missing", lambda: lacks)
    assert verify_command._prover() == (
        lacks or Prover(run=formal.run, expected=formal.estimate_seconds)
    )


#: A testbench that is given the configuration by its file.
_KNOWS_NANO = """
import os
from matloom.arch.config import load_config
def test(): assert load_config(os.environ["MATLOOM_CONFIG"]) == load_config("nano")
"""


def a_file_of_nano(folder):
    path = folder / "mine.json"
    path.write_text(NANO.to_json())
    return path


def test_a_check_that_fails_says_how_it_runs_again(monkeypatch):
    def check(pair, seed):
        raise MismatchError("external memory differs")

    monkeypatch.setitem(CHECKS, "streams", check)
    run, step = a_run(say=lambda line: None), Step(name="streams")
    run.verification.source = "my chip.json"
    chip = SimpleNamespace(coverage=None, count=lambda: None)
    monkeypatch.setattr(streams, "open_chip", lambda config, seed: chip)
    monkeypatch.setattr(streams.Pair, "start", lambda chip, config: None)
    campaign._run_streams(run, HERE, step)
    assert (step.verdict, step.detail) == (FAILED, "MismatchError: external memory differs")
    assert step.lines[-1].endswith("MismatchError: external memory differs")
    words = shlex.split(step.lines[1])
    assert words[:2] == ["matloom", "replay"]
    assert words[3:] == ["--config", "my chip.json", "--waves", "failing.vcd"]
    tries = []
    monkeypatch.setattr(
        replays, "replay", lambda config, failed, waves, say: tries.append((failed, waves))
    )
    result = CliRunner().invoke(cli.cli, [*words[1:3], "--config", "nano", *words[5:]])
    sentence = f"{words[2]}: PASSED; waves are written of failures only\n"
    assert (result.exit_code, result.output) == (0, sentence)
    ((failed, waves),) = tries
    assert (f"{failed.check}:{failed.seed}", waves) == (words[2], Path("failing.vcd"))


@pytest.mark.parametrize(
    "text", ["streams", "streams:", "streams:1:2", "coverage:1", "a:1", "layers:-1"]
)
def test_a_check_to_replay_is_named_by_its_seed(text):
    with pytest.raises(UserError, match="a check must be streams, corrupted, refusals, layers"):
        replays.Replay.parse(text)


def test_the_regression_is_in_a_clone(monkeypatch, tmp_path):
    monkeypatch.setattr(regression, "_BENCHES", tmp_path)
    assert regression.why_no_regression() == (
        "the testbenches, sim_tests/, are in a clone of the project only"
    )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("text", "seconds", "passed", "summary"),
    [
        ("def test(): pass", 60, True, "1 passed"),
        (_KNOWS_NANO, 60, True, "1 passed"),
        ("def test(): assert 0", 60, False, "1 failed"),
        (
            "import time\ndef test(): time.sleep(60)",
            6,
            None,
            "0 of 1 testbenches passed; no time was left",
        ),
    ],
)
def test_the_regression_ends_in_time(monkeypatch, tmp_path, text, seconds, passed, summary):
    (tmp_path / "test_chip.py").write_text(text)
    monkeypatch.setattr(regression, "_BENCHES", tmp_path)
    outcome = regression.regression(a_file_of_nano(tmp_path), seconds)
    assert outcome.passed is passed
    assert outcome.summary.startswith(summary)


def test_the_regression_ends_with_an_interruption(monkeypatch, tmp_path):
    """It runs in its own session, which the terminal's signal does not reach."""
    (tmp_path / "test_chip.py").write_text("import time\ndef test(): time.sleep(60)")
    monkeypatch.setattr(regression, "_BENCHES", tmp_path)
    started = []

    class Interrupted(regression.subprocess.Popen):
        def communicate(self, timeout=None):
            started.append(self)
            raise KeyboardInterrupt

    monkeypatch.setattr(regression.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        regression.regression(a_file_of_nano(tmp_path), 60)
    assert started[0].wait(timeout=20) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("verdict", "status"), [(PASSED, 0), (INCOMPLETE, 0), (FAILED, 1), (NOT_RUN, 1)]
)
def test_exit_status(tmp_path, monkeypatch, verdict, status):
    def pretend(found, **_options):
        found.steps.append(Step(name="streams", verdict=verdict, detail="so"))

    monkeypatch.setattr(campaign, "verify", pretend)
    words = ["verify", "--config", "nano", "--seed", "5", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(cli.cli, words)
    assert result.exit_code == status
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["verdict"], report["seed"]) == (verdict, 5)
    assert verdict in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(("verdict", "status"), [(INCOMPLETE, 130), (FAILED, 1)])
def test_exit_status_of_an_interruption(tmp_path, monkeypatch, capsys, verdict, status):
    def pretend(found, **_options):
        found.steps.append(Step(name="streams", verdict=verdict, detail="so"))
        found.interrupted = True

    monkeypatch.setattr(campaign, "verify", pretend)
    words = ["verify", "--config", "nano", "-o", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", ["matloom", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == status
    assert f"nano: {verdict}" in capsys.readouterr().out
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--minutes", "0"], "--minutes"),
        (["--seed", "-1"], "--seed"),
        (["--config", "none.json"], "none.json"),
        (["--config", "nano", "-o", "taken"], "taken"),
        (["--only", "proof"], "'proof' is not one of 'verilog', 'simulator'"),
        (
            ["--config", "nano", "--junit", "none/report.xml"],
            "--junit cannot be written: there is no",
        ),
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
    """The bug is in the model here, which gives the same difference as one in the chip."""
    model = "matloom.device.model.post.clamp"
    monkeypatch.setattr(model, lambda values, low, high: values.clip(low + 1, high))
    monkeypatch.setattr(plan, "why_no_regression", lambda: "not now")
    found = verified()
    found.minutes = 10  # each step ends with its first failure; the simulator may have to be built
    run(found, tmp_path)
    verdicts = {step.name: step.verdict for step in found.steps}
    assert verdicts == {
        "verilog": PASSED,
        "simulator": PASSED,
        "coverage": FAILED,
        "streams": FAILED,
        "regression": NOT_RUN,
        "proofs": NOT_RUN,
    }
    assert "external memory differs" in found.steps[2].detail


@pytest.mark.slow
def test_workers_check_the_same():
    two = TaskRunner(make=partial(processes, 2), at_once=4)
    one, other = (list(islice(streams.run_checks(NANO, 5, each), 6)) for each in (HERE, two))
    streams.close_chip()
    for left, right in zip(one, other, strict=True):
        assert (left.check, left.counts, left.error) == (right.check, right.counts, "")
        assert left.covered.as_dict() == right.covered.as_dict()
    assert len({found.check.name for found in one}) == 4


@pytest.mark.slow
def test_nano_reaches_every_point(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "why_no_regression", lambda: "not now")
    monkeypatch.setattr(campaign, "_run_streams", lambda *_run: None)
    found = verified()
    found.minutes = 8
    run(found, tmp_path)
    assert found.steps[2].verdict == PASSED, found.steps[2]
    assert found.coverage.missing() == []
