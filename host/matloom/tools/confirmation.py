"""Confirms predictions for engines: synthesis for tables, placement and routing for the clock.

The tasks that run the tools come from the caller, who knows the generator.
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

#: Function from an engine's text to measurements by name, or ``{"why": ...}``.
Tool = Callable[[str], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """Measures points of an exploration with a tool; an interrupted run continues where it stopped.

    Members
    -------
    kind:
        ``synthesis`` or ``routing``.
    tool:
        The task, a function that workers can import.
    journal:
        File with a line for each engine; it is read first.
    """

    exploration: Exploration
    kind: str
    tool: Tool
    journal: Path

    def of(
        self,
        points: Sequence[ExploredPoint],
        make: Callable[[], Executor],
        note: Callable[[int], None] = lambda done: None,
    ) -> list[ExploredPoint]:
        """Return points with measurements added to `measured`."""
        known = self._read()
        # The smallest engines first: an interrupted run has then measured most of them.
        by_size = sorted(points, key=lambda point: point.tables)
        texts = [each.text for each in by_size if self._key(each.text) not in known]
        done = len(points) - len(texts)
        note(done)
        with self.journal.open("a", encoding="utf-8") as journal:
            for at, found in run_as_completed(self.tool, texts, make):
                key = self._key(texts[at])
                known[key] = found
                journal.write(json.dumps({"key": key, "text": texts[at], "found": found}) + "\n")
                journal.flush()
                done += 1
                note(done)
        return [self._with_measurement(each, known[self._key(each.text)]) for each in points]

    def _with_measurement(self, point: ExploredPoint, measurement: dict[str, Any]) -> ExploredPoint:
        measured = {
            **point.measured,
            **{f"{self.kind} {name}": v for name, v in measurement.items()},
        }
        if self.kind == "synthesis" and "tables" in measurement:
            tables = self.exploration.fit.whole_board(measurement["tables"])
            measured |= {
                "tables": round(tables),
                "error": round(point.tables / tables - 1, 4),
            }
        return replace(point, measured=measured)

    def _key(self, text: str) -> str:
        part = self.exploration.part
        parts = (matloom.__version__, self.kind, part.board, f"{part.clock_mhz}", text)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def _read(self) -> dict[str, dict[str, Any]]:
        """Return the journal's entries; lines that were cut short or altered are left out."""
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
