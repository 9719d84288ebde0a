"""Everything that a user can have checked of the chip of a configuration, within some minutes."""

import importlib.util
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matloom.arch.config import Config
from matloom.arch.memory import load_memory
from matloom.coverage.coverage import Coverage
from matloom.device.covered import CoveredTransport
from matloom.device.rtl import MemoryTiming
from matloom.testing.checks import CHECKS, check_stream
from matloom.testing.pair import Pair
from matloom.testing.regression import regression, why_no_regression
from matloom.testing.steered import steered_streams

__all__ = ["FAILED", "INCOMPLETE", "NOT_RUN", "PASSED", "Prover", "Step", "Verification", "verify"]

PASSED, FAILED, INCOMPLETE, NOT_RUN = "PASSED", "FAILED", "INCOMPLETE", "NOT RUN"

#: Parts of the time, of what is left when a step begins.
_SHARES = {"coverage": 3, "streams": 3, "regression": 3, "proofs": 4}

#: How often each check of random streams is chosen.
_MIX = ("streams", "streams", "corrupted", "streams", "streams", "layers")

#: Proves claims of a configuration in some minutes: `matloom_rtl.formal.run`.
Prover = Callable[..., list[Any]]


@dataclass(kw_only=True)
class Step:
    """What came of a step.

    Members
    -------
    verdict:
        `PASSED`, `FAILED`, `INCOMPLETE` (nothing failed, and not all was reached), `NOT_RUN`.
    detail:
        A sentence.
    figures, lines:
        Numbers by name, and what else there is to say.
    """

    name: str
    verdict: str = NOT_RUN
    detail: str = ""
    seconds: float = 0.0
    figures: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Verification:
    """All steps of a configuration, and the coverage of its streams."""

    name: str
    config: Config
    seed: int
    minutes: float
    steps: list[Step] = field(default_factory=list)
    coverage: Coverage

    @property
    def failed(self) -> bool:
        """Whether any step failed."""
        return any(step.verdict == FAILED for step in self.steps)

    @property
    def verdict(self) -> str:
        """The worst of the steps that ran."""
        verdicts = [step.verdict for step in self.steps]
        return next((each for each in (FAILED, INCOMPLETE) if each in verdicts), PASSED)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {
            "name": self.name,
            "config": self.config.as_dict(),
            "digest": f"{self.config.digest:08x}",
            "seed": self.seed,
            "minutes": self.minutes,
            "verdict": self.verdict,
            "steps": [vars(step) for step in self.steps],
            "coverage": self.coverage.as_dict(),
        }


@dataclass(kw_only=True)
class _Run:
    """What the steps share."""

    verification: Verification
    end: float
    say: Callable[[str], None]
    shares: dict[str, int]

    def seconds_for(self, name: str) -> float:
        """Return the seconds that a step may take; the time of those before it is gone."""
        share = self.shares[name] / sum(self.shares.values())
        del self.shares[name]
        return max(self.end - time.monotonic(), 0) * share


def verify(
    verification: Verification,
    *,
    prover: Prover | None,
    folder: Path,
    say: Callable[[str], None],
) -> None:
    """Take every step that is possible here; what is not says why in its verdict.

    Parameters
    ----------
    prover:
        None where no proofs are installed.
    folder:
        For files of the steps.
    say:
        Takes lines of progress.

    Errors
    ------
    ToolError
        The simulator cannot be built.
    """
    shares = dict(_SHARES)
    lacking = why_no_regression()
    if lacking:
        del shares["regression"]
    if prover is None:
        del shares["proofs"]
    end = time.monotonic() + 60 * verification.minutes
    run = _Run(verification=verification, end=end, say=say, shares=shares)
    config = verification.config
    say(f"building the simulator of {verification.name} with bus monitor and probes")
    chip = CoveredTransport(
        config, _memory_bytes(config), check_bus=True, state_seed=verification.seed
    )
    chip.coverage = verification.coverage
    _step(run, "coverage", lambda step, seconds: _coverage(run, chip, step, seconds))
    _step(run, "streams", lambda step, seconds: _streams(run, chip, step, seconds))
    chip.close()
    _step(
        run,
        "regression",
        lambda step, seconds: _regression(run, folder, step, seconds),
        lacking,
    )
    _step(
        run,
        "proofs",
        lambda step, seconds: _proofs(run, prover, step, seconds),
        "" if prover else "matloom_rtl.formal is not installed",
    )


def _memory_bytes(config: Config) -> int:
    """Return room for three regions that each hold the scratchpad, and for commands."""
    return max(1 << 22, 4 * (config.spad_bytes + (1 << 16)))


def _step(run: _Run, name: str, body: Callable[[Step, float], None], lacking: str = "") -> None:
    """Take a step: what it raises is a failure of the chip or of the check, and told as such."""
    step = Step(name=name, detail=lacking)
    run.verification.steps.append(step)
    if not lacking:
        begun = time.monotonic()
        try:
            body(step, run.seconds_for(name))
        except Exception as error:
            step.verdict, step.detail = FAILED, f"{type(error).__name__}: {error}"
            step.lines += traceback.format_exc().splitlines()[-12:]
        step.seconds = round(time.monotonic() - begun, 1)
    run.say(f"{step.name}: {step.verdict}, {step.detail}")


def _timings(seed: int) -> Mapping[str, MemoryTiming]:
    """Return a timing for each of `coverage.model.STALLS`."""
    return {
        "steady": MemoryTiming(),
        "withheld": MemoryTiming(stall_per_1024=300, latency_jitter=40, seed=seed),
        "slow": MemoryTiming(memory=load_memory("sdram-16")),
    }


def _coverage(run: _Run, chip: CoveredTransport, step: Step, seconds: float) -> None:
    """Run streams towards points that are missing, on chip and model, until none or no time."""
    coverage, seed = chip.coverage, run.verification.seed
    pair = Pair.of(chip, run.verification.config)
    end, told = time.monotonic() + seconds, 0.0
    streams = 0
    step.detail = f"seed {seed}"
    for number, steered in enumerate(steered_streams(coverage, seed)):
        if time.monotonic() >= end:
            break
        step.detail = f"seed {seed}, steered stream {number}"
        chip.set_timing(_timings(number)[steered.stall])
        check_stream(pair, steered.stream, number)
        chip.count()
        streams += 1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            run.say(f"coverage: {_reached(coverage)}")
    missing = coverage.missing()
    step.figures = {"streams": streams, "instructions": coverage.instructions}
    step.verdict = INCOMPLETE if missing else PASSED
    step.detail = _reached(coverage)
    step.lines = [f"missing: {point}" for point in missing]


def _reached(coverage: Coverage) -> str:
    shares = coverage.shares().values()
    reached, declared = (sum(column) for column in zip(*shares, strict=True))
    return f"{reached} of {declared} declared points reached"


def _streams(run: _Run, chip: CoveredTransport, step: Step, seconds: float) -> None:
    """Run random checks with new seeds until the time is over; at least one of each kind."""
    generator = random.Random(run.verification.seed)
    end, told, number = time.monotonic() + seconds, time.monotonic(), 0
    counts: Counter[str] = Counter()
    while number < len(_MIX) or time.monotonic() < end:
        check, seed = _MIX[number % len(_MIX)], generator.getrandbits(32)
        pair = Pair.of(chip, run.verification.config)
        try:
            counts += CHECKS[check](pair, seed)
        except Exception:
            step.lines.append(f"{check} with seed {seed} failed")
            raise
        number += 1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            run.say(f"streams: {dict(counts)}")
    step.figures, step.verdict = dict(counts), PASSED
    step.detail = "chip and functional model agree, no rule of the bus was broken"


def _regression(run: _Run, folder: Path, step: Step, seconds: float) -> None:
    """Run the cocotb testbenches."""
    outcome = regression(run.verification.config, folder, seconds)
    step.verdict = {True: PASSED, False: FAILED, None: INCOMPLETE}[outcome.passed]
    step.detail, step.lines = outcome.summary, [] if outcome.passed else list(outcome.lines)


def _proofs(run: _Run, prover: Prover | None, step: Step, seconds: float) -> None:
    """Prove what the time suffices for."""
    if prover is None:
        raise ValueError("there must be a prover")
    results = prover(run.verification.config, seconds / 60, say=run.say)
    verdicts = Counter(result.verdict for result in results)
    step.lines = [
        f"{result.verdict}: {result.unit}: {result.statement} {result.detail}".rstrip()
        for result in results
    ]
    step.detail = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    if verdicts[FAILED]:
        step.verdict = FAILED
    elif not results or set(verdicts) == {NOT_RUN}:
        step.verdict, step.detail = NOT_RUN, results[0].detail if results else "nothing to prove"
    else:
        step.verdict = PASSED if set(verdicts) == {"PROVEN"} else INCOMPLETE


def installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
