"""Confirms predictions for engines: LUTs by synthesis, the clock by placement and routing.

The functions that run these tools come from the caller, because only the generator provides them.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matloom
from matloom.tools.explore import Exploration, ExploredPoint
from matloom.workers import run_as_completed

#: Function that measures an engine, given its configuration as text. It returns measurements by
#: name, or ``{"why": REASON}`` if the tool failed.
Tool = Callable[[str], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """Measures engines of an exploration with an FPGA tool; can be interrupted and continued.

    Members
    -------
    kind:
        ``synthesis`` or ``routing``.
    tool:
        Function that measures an engine; workers must be able to import it.
    journal:
        File to which a line is appended for each engine measured. Its engines are not measured
        again.
    """

    exploration: Exploration
    kind: str
    tool: Tool
    journal: Path

    def measure(
        self,
        points: Sequence[ExploredPoint],
        make: Callable[[], Executor],
        note: Callable[[int], None] = lambda done: None,
    ) -> list[ExploredPoint]:
        """Return `points`, in their order, with measurements added to `measured`.

        `make` creates the executor of the tool; `note` is called with the number of points done.
        """
        known = self._read_journal()
        # The smallest engines first: an interrupted run has then measured most of them.
        by_size = sorted(points, key=lambda point: point.tables)
        texts = [each.text for each in by_size if self._journal_key(each.text) not in known]
        done = len(points) - len(texts)
        note(done)
        with self.journal.open("a", encoding="utf-8") as journal:
            for at, found in run_as_completed(self.tool, texts, make):
                key = self._journal_key(texts[at])
                known[key] = found
                journal.write(json.dumps({"key": key, "text": texts[at], "found": found}) + "\n")
                journal.flush()
                done += 1
                note(done)
        return [
            self._with_measurement(each, known[self._journal_key(each.text)]) for each in points
        ]

    def _with_measurement(self, point: ExploredPoint, measurement: dict[str, Any]) -> ExploredPoint:
        """Return a point with a measurement and, after synthesis, the prediction's error added."""
        measured = {
            **point.measured,
            **{f"{self.kind} {name}": v for name, v in measurement.items()},
        }
        if self.kind == "synthesis" and "tables" in measurement:
            tables = self.exploration.engine_search.whole_board(measurement["tables"])
            measured |= {
                "tables": round(tables),
                "error": round(point.tables / tables - 1, 4),
            }
        return replace(point, measured=measured)

    def _journal_key(self, text: str) -> str:
        """Return the key of a configuration's measurement in the journal."""
        part = self.exploration.part
        parts = (matloom.__version__, self.kind, part.board, f"{part.clock_mhz}", text)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def _read_journal(self) -> dict[str, dict[str, Any]]:
        """Return the measurements in the journal, by key; damaged lines are skipped."""
        known: dict[str, dict[str, Any]] = {}
        if not self.journal.exists():
            return known
        for line in self.journal.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line)
                known[str(entry["key"])] = dict(entry["found"])
            except (ValueError, KeyError, TypeError):
                continue
        return known
