"""Measured durations of proofs: python -m matloom_rtl.formal.durations REPORT.

The command writes `durations.json` from a report of `python -m matloom_rtl.formal --report`.
"""

import functools
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from matloom_rtl.formal.proof import Proof

__all__ = ["durations_of", "expected_seconds"]

_FILE = Path(__file__).with_name("durations.json")


def durations_of(report: dict[str, Any]) -> dict[str, float]:
    """Return the median seconds of each unit's claims, each counted once per configuration."""
    found: dict[str, list[float]] = {}
    for claim in report["claims"]:
        found.setdefault(claim["unit"], []).extend([claim["seconds"]] * len(claim["configs"]))
    return {unit: statistics.median(found[unit]) for unit in sorted(found)}


@functools.cache
def _load_durations() -> dict[str, float]:
    """Return the stored durations of proofs in seconds, by class of unit."""
    return dict(json.loads(_FILE.read_text()))


def _class_of(unit: str) -> str:
    """Return the class of a unit: its description up to the first comma."""
    return unit.split(",")[0]


def expected_seconds(proof: Proof) -> float:
    """Return the approximate seconds that a proof takes on an idle core.

    If the unit was never measured, the result is the longest time of the same unit with other
    parameters, or else the median of all units.
    """
    known = _load_durations()
    if proof.unit in known:
        return known[proof.unit]
    alike = [known[unit] for unit in known if _class_of(unit) == _class_of(proof.unit)]
    return max(alike, default=statistics.median(known.values()))


if __name__ == "__main__":
    measured = durations_of(json.loads(Path(sys.argv[1]).read_text()))
    _FILE.write_text(json.dumps(measured, indent=0) + "\n")
