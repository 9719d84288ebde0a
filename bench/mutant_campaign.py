"""Runs streams, equivalence checks and claims on mutants of the netlist, and keeps the verdicts."""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutant_proofs import first_failing_claim, prepare
from mutant_report import EQUIVALENT, MORE_STREAMS, NOTHING, PROOFS, STREAMS, unit_of, write
from mutant_trials import what_noticed
from mutant_yosys import is_equivalent

from matloom.arch.config import Config

#: Streams of the first trial, and of one of survivors.
_FEW, _MANY = (10, 10), (100, 60)

#: Counts how often the checks beside the first streams were made wider: survivors of narrower ones
#: are put to these checks again. Streams would be the same ones, by the number of the mutant.
_WIDTH, _CHECKS_ALONE = 2, (0, 0)


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Tries all mutants of a netlist in one simulator, and keeps a report of their verdicts."""

    config: Config
    library: Path
    mutants: list[str]
    folder: Path
    report: dict[str, Any]

    @property
    def verdicts(self) -> dict[str, Any]:
        """Verdicts so far, by mutant."""
        mutants: dict[str, Any] = self.report["mutants"]
        return mutants

    def leave_out(self, observed: set[int]) -> None:
        """Mark mutants that no output of the chip depends on as equivalent; they are not tried.

        `observed` has the numbers of all other mutants. Raises RuntimeError if an earlier check
        noticed a mutant that is not among them.
        """
        for number, mutant in enumerate(self.mutants, start=1):
            if number in observed:
                continue
            item = self.verdicts.setdefault(mutant, {"unit": unit_of(mutant)})
            if item.get("verdict") in (STREAMS, MORE_STREAMS, PROOFS):
                raise RuntimeError(f"{mutant} is noticed and said to change nothing")
            item.update(verdict=EQUIVALENT, by="no output of the chip depends on it")
        write(self.report)

    def first_streams(self, end: float) -> None:
        """Run a few random instruction streams on every mutant without a verdict.

        Stops when `time.monotonic` exceeds `end`.
        """
        if not self.verdicts:
            wrong = what_noticed(self.config, self.library, 0, _MANY)
            if wrong:
                raise SystemExit(f"the chip without a mutant must pass, not end with {wrong}")
        for number, mutant in enumerate(self.mutants, start=1):
            if mutant in self.verdicts:
                continue
            if time.monotonic() > end:
                break
            begin = time.monotonic()
            by = what_noticed(self.config, self.library, number, _FEW)
            verdict = STREAMS if by else NOTHING
            self.verdicts[mutant] = {
                **{"unit": unit_of(mutant), "verdict": verdict, "by": by},
                "width": _WIDTH,
            }
            self._report_verdict(mutant, begin)

    def _report_verdict(self, mutant: str, begin: float) -> None:
        """Save the report, and print the verdict on a mutant and the time since `begin`."""
        write(self.report)
        item, seconds = self.verdicts[mutant], time.monotonic() - begin
        number = self.mutants.index(mutant) + 1
        told = f"{item['unit']:28} {item['verdict']:12} {item['by']}"
        print(f"{number:4} {seconds:6.1f} s  {told}", flush=True)

    def _survivors(
        self, end: float, untried: str = ""
    ) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield number, name and record of each mutant that nothing noticed, until time is up.

        Mutants whose record has the key `untried` are skipped.
        """
        for number, mutant in enumerate(self.mutants, start=1):
            item = self.verdicts.get(mutant, {"verdict": ""})
            if time.monotonic() > end:
                break
            if item["verdict"] == NOTHING and untried not in item:
                yield number, mutant, item

    def retry(self, end: float) -> None:
        """Run the checks again on survivors that were tried before the checks were extended."""
        for number, mutant, item in self._survivors(end):
            if item.get("width") == _WIDTH:
                continue
            begin = time.monotonic()
            by = what_noticed(self.config, self.library, number, _CHECKS_ALONE)
            item.update(width=_WIDTH, **({"verdict": STREAMS, "by": by} if by else {}))
            self._report_verdict(mutant, begin)

    def compare(self, end: float) -> None:
        """Check each survivor, once, for equivalence with the original netlist."""
        for _number, mutant, item in self._survivors(end, "compared"):
            begin = time.monotonic()
            same = is_equivalent(mutant, self.folder)
            item.update(compared=True, **({"verdict": EQUIVALENT} if same else {}))
            self._report_verdict(mutant, begin)

    def more_streams(self, end: float) -> None:
        """Run more streams on each survivor, once, until time is up."""
        for number, mutant, item in self._survivors(end, "more"):
            begin = time.monotonic()
            by = what_noticed(self.config, self.library, number, _MANY)
            item.update(more=True, **({"verdict": MORE_STREAMS, "by": by} if by else {}))
            self._report_verdict(mutant, begin)

    def claims(self, end: float, seconds: int) -> None:
        """Check survivors against the claims about their unit; again after claims have changed.

        `seconds` limits each claim.
        """
        claims = prepare(self.config, self.folder / "claims")
        names = sorted(claim.folder.name for claim in claims)
        of = hashlib.sha256(repr(names).encode()).hexdigest()[:8]
        for _number, mutant, item in self._survivors(end):
            if item.get("claims_of") == of:
                continue
            begin = time.monotonic()
            tried, by = first_failing_claim(
                mutant, self.folder, claims, self.folder / "proof", seconds
            )
            item.update(claims=tried, claims_of=of, **({"verdict": PROOFS, "by": by} if by else {}))
            self._report_verdict(mutant, begin)
