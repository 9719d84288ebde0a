"""Runs all possible checks of a configuration's chip within a time limit."""

import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matloom.arch.config import Config
from matloom.coverage.coverage import Coverage
from matloom.device.covered import CoveredTransport
from matloom.verification.checks import check_stream
from matloom.verification.pair import Pair
from matloom.verification.plan import (
    ON_CHIP,
    Prover,
    expected_seconds,
    position_of,
    why_not_run,
)
from matloom.verification.regression import regression
from matloom.verification.replays import how_to_replay, timing_of
from matloom.verification.steered import steered_streams
from matloom.verification.streams import MIN_CHECKS, close_chip, open_chip, run_checks
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
from matloom.workers import TaskRunner

#: Name of the configuration's file in the folder of the report.
_CONFIG_FILE = "config.json"

#: Share of the time that is reserved for random streams, which have no end of their own.
_STREAMS_SHARE = 0.1

#: Function that writes the Verilog of a configuration to a folder, and returns a sentence about it
#: and the warnings of Verilator that are not waived.
Linter = Callable[[Config, Path], tuple[str, Sequence[object]]]


@dataclass(kw_only=True)
class _Run:
    """State that the steps of a running verification share: deadline, estimates, progress.

    Members
    -------
    end:
        Deadline, as a time of `time.monotonic`.
    say:
        Prints a line of progress.
    expected:
        Estimated seconds to complete each step that has an end, by the step's name.
    started_steps:
        Names of the steps with an end that have started.
    """

    verification: Verification
    end: float
    say: Callable[[str], None]
    expected: dict[str, float] = field(default_factory=dict)
    started_steps: set[str] = field(default_factory=set)

    @property
    def source(self) -> str:
        """The configuration as the user gave it, or else its name."""
        return self.verification.source or self.verification.name

    def seconds_for(self, name: str) -> float:
        """Return the seconds that a step may take.

        A step gets an equal share of the remaining time, or twice its estimate if that is more, so
        that a low estimate does not cut it short; random streams get all of the remaining time.
        """
        left = max(self.end - time.monotonic(), 0.0)
        if name == "streams":
            return left
        left = max(left - _STREAMS_SHARE * 60 * self.verification.minutes, 0.0)
        self.started_steps.add(name)
        shares = 1 + len(self.expected.keys() - self.started_steps)
        return min(left, max(left / shares, 2 * self.expected.get(name, 0.0)))


def verify(
    verification: Verification,
    *,
    linter: Linter,
    prover: Prover | str,
    folder: Path,
    say: Callable[[str], None],
    tasks: TaskRunner,
) -> None:
    """Run every step that is possible here, and add all steps to `verification.steps`.

    Steps that have an end come first, those with the shortest estimate before others; random
    streams use the remaining time. Steps that cannot run are NOT RUN, with the reason. Ctrl-C makes
    the current step INCOMPLETE and later ones NOT RUN.

    Parameters
    ----------
    prover:
        The prover, or the reason why there is none.
    folder:
        Folder for `config.json` and the Verilog.
    say:
        Prints a line of progress.
    tasks:
        Runs the random checks.
    """
    (folder / _CONFIG_FILE).write_text(verification.config.to_json())
    end = time.monotonic() + 60 * verification.minutes
    why_not = why_not_run(verification, prover)
    expected = expected_seconds(verification, prover, why_not)
    run = _Run(verification=verification, end=end, say=say, expected=expected)
    if expected:
        estimates = ", ".join(f"{name} {each / 60:.1f}" for name, each in expected.items())
        say(f"minutes that should complete it, on an idle core: {estimates}")
    chips: list[CoveredTransport] = []
    bodies: dict[str, Callable[[Step], None]] = {
        "verilog": lambda step: _write_verilog(run, linter, folder, step),
        "simulator": lambda step: chips.append(_build_simulator(run, step)),
        "coverage": lambda step: _run_coverage(run, chips[0], step),
        "regression": lambda step: _run_regression(run, folder, step),
        "proofs": lambda step: _run_proofs(run, prover, step),
        "streams": lambda step: _run_streams(run, tasks, step),
    }
    bodies = dict(sorted(bodies.items(), key=lambda each: position_of(each[0], expected)))
    for name, body in bodies.items():
        no_chip = "the simulator was not built" if name in ON_CHIP and not chips else ""
        _run_step(run, name, body, why_not[name] or no_chip)
    close_chip()
    verification.steps.sort(key=lambda step: STEPS.index(step.name))


def _run_step(run: _Run, name: str, body: Callable[[Step], None], why_not: str = "") -> None:
    """Run a step and set its verdict; an exception makes it FAILED.

    If `why_not`, the reason why it cannot run, is not empty, the step is NOT RUN.
    """
    why_not = why_not or ("interrupted before" if run.verification.interrupted else "")
    step = Step(name=name, detail=why_not)
    run.verification.steps.append(step)
    if not why_not:
        start = time.monotonic()
        try:
            body(step)
        except KeyboardInterrupt:
            run.verification.interrupted = True
            step.verdict, step.detail = INCOMPLETE, "interrupted"
            step.remaining = run.expected.get(name, 0.0)
        except Exception as error:
            step.lines += [f"it failed at: {step.detail}"] if step.detail else []
            step.verdict, step.detail = FAILED, f"{type(error).__name__}: {error}"
            step.lines += traceback.format_exc().splitlines()[-12:]
        step.seconds = round(time.monotonic() - start, 1)
    run.say(f"{step.name}: {step.verdict}, {step.sentence}")


def _write_verilog(run: _Run, linter: Linter, folder: Path, step: Step) -> None:
    """Write the Verilog and lint it with Verilator."""
    step.detail, complaints = linter(run.verification.config, folder)
    step.verdict = FAILED if complaints else PASSED
    step.lines = [str(each) for each in complaints]


def _build_simulator(run: _Run, step: Step) -> CoveredTransport:
    """Build the simulator, or use the cached one; return the simulated chip."""
    run.say(f"building the simulator of {run.verification.name} with bus monitor and probes")
    chip = open_chip(run.verification.config, run.verification.seed)
    chip.coverage = run.verification.coverage
    step.verdict, step.detail = PASSED, "with bus monitor and probes; cached for the next time"
    return chip


def _run_coverage(run: _Run, chip: CoveredTransport, step: Step) -> None:
    """Run instruction streams aimed at missing coverage points, until all are hit or time is up."""
    coverage, seed = chip.coverage, run.verification.seed
    pair = Pair.start(chip, run.verification.config)
    expected = run.expected.get("coverage", 0.0)
    start = last_report = time.monotonic()
    end, half = start + run.seconds_for("coverage"), (start, 0)
    streams = 0
    for number, steered in enumerate(steered_streams(coverage, seed)):
        now = time.monotonic()
        if now >= end:
            break
        if now - start > 2 * (half[0] - start):
            half = now, len(coverage.missing())
        step.detail = f"seed {seed}, steered stream {number}"
        step.lines = how_to_replay("coverage", seed, number, run.source)
        chip.set_timing(timing_of(steered.stall, number))
        check_stream(pair, steered.stream, number)
        chip.count()
        streams += 1
        if now - last_report > 10:
            last_report = now
            run.say(f"coverage: {_coverage_text(coverage)}")
    step.figures = {"streams": streams, "instructions": coverage.instructions}
    missing = len(coverage.missing())
    step.verdict = INCOMPLETE if missing else PASSED
    step.detail, step.lines = _coverage_text(coverage), []
    if missing:
        # Extrapolates from the second half of the time, because the last points are the slowest.
        rate = (half[1] - missing) / max(time.monotonic() - half[0], 1.0)
        step.remaining = max(
            missing / rate if rate > 0 else 0.0, expected - (time.monotonic() - start), 60.0
        )


def _coverage_text(coverage: Coverage) -> str:
    """Return the number of coverage points reached and declared, as text."""
    shares = coverage.shares().values()
    reached, declared = (sum(column) for column in zip(*shares, strict=True))
    return f"{reached} of {declared} declared points reached"


def _run_streams(run: _Run, tasks: TaskRunner, step: Step) -> None:
    """Run random checks with new seeds until one fails or time is up, at least one of each kind."""
    verification = run.verification
    last_report = time.monotonic()
    end = last_report + run.seconds_for("streams")
    counts: Counter[str] = Counter()
    for number, found in enumerate(run_checks(verification.config, verification.seed, tasks), 1):
        verification.coverage.merge(found.covered)
        counts += found.counts
        step.figures = dict(counts)
        if found.error:
            step.verdict, step.detail = FAILED, found.error
            step.lines = how_to_replay(found.check.name, found.check.seed, None, run.source)
            step.lines += found.lines
            return
        if time.monotonic() - last_report > 10:
            last_report = time.monotonic()
            run.say(f"streams: {step.sentence}")
        if number >= MIN_CHECKS and time.monotonic() >= end:
            break
    step.verdict = PASSED
    step.detail = "chip and functional model agree, no rule of the bus was broken"


def _run_regression(run: _Run, folder: Path, step: Step) -> None:
    """Run the cocotb testbenches until all are done or time is up."""
    expected = run.expected.get("regression", 0.0)
    start = time.monotonic()
    outcome = regression(folder / _CONFIG_FILE, run.seconds_for("regression"))
    step.verdict = {True: PASSED, False: FAILED, None: INCOMPLETE}[outcome.passed]
    step.detail, step.lines = outcome.summary, [] if outcome.passed else list(outcome.lines)
    if step.verdict == INCOMPLETE:
        left = outcome.testbenches - outcome.done
        took = time.monotonic() - start
        step.remaining = max(took * left / max(outcome.done, 1), expected - took)


def _run_proofs(run: _Run, prover: Prover | str, step: Step) -> None:
    """Prove as many of the chip's formal properties (claims) as time allows."""
    if isinstance(prover, str):
        raise ValueError(prover)
    minutes = run.seconds_for("proofs") / 60
    results = prover.run(run.verification.config, minutes, say=run.say)
    verdicts = Counter(result.verdict for result in results)
    step.lines = [
        f"{result.verdict}: {result.unit}: {result.statement} {result.detail}".rstrip()
        for result in results
    ]
    step.cases = [
        Case(
            name=f"{result.unit}: {result.statement}",
            verdict=result.verdict,
            detail=result.detail,
            seconds=result.seconds,
        )
        for result in results
    ]
    step.remaining = sum(
        result.seconds for result in results if result.verdict in (NOT_RUN, "TIMEOUT")
    )
    step.detail = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    if verdicts[FAILED]:
        step.verdict = FAILED
    elif not results or set(verdicts) == {NOT_RUN}:
        step.verdict, step.detail = NOT_RUN, results[0].detail if results else "nothing to prove"
    else:
        step.verdict = PASSED if set(verdicts) == {"PROVEN"} else INCOMPLETE
