"""Counts coverage points over many runs: collects, merges and stores them."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Region
from matloom.coverage.flight import Event, trace_flight
from matloom.coverage.model import CoverageModel, declare
from matloom.coverage.points import Window, fields_reached, waits_reached
from matloom.errors import UserError

_FORMAT = 1


class Coverage:
    """Counts of how often each coverage point, such as a field at its limit, was reached.

    Members
    -------
    hits:
        Number of times that each point was reached.
    runs, instructions:
        Number of command buffers, and number of instructions completed in them.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.model: CoverageModel = declare(config)
        self.hits: Counter[str] = Counter()
        self.runs = self.instructions = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only configuration and counts; the declared points are made again from them."""
        return (
            Coverage,
            (self.config,),
            {
                "hits": self.hits,
                "runs": self.runs,
                "instructions": self.instructions,
            },
        )

    def add_run(
        self,
        instructions: Sequence[Instruction],
        events: Sequence[Event],
        windows: Mapping[Region, Window],
        stall: str,
    ) -> None:
        """Count the points that the completed instructions of a command buffer reached.

        Parameters
        ----------
        windows:
            Regions of external memory, as set in the registers.
        stall:
            Behaviour of external memory during the run, one of `model.STALLS`.

        Raises
        ------
        ValueError
            The events do not belong to these instructions.
        """
        flight = trace_flight(instructions, events)
        reached: list[str] = []
        for number in flight.completed:
            instruction = instructions[number]
            fields = fields_reached(instruction, self.config, windows)
            reached += [f"{point} {stall}" for point in fields]
            reached += waits_reached(instruction)
        whole = len(flight.completed) == len(instructions) - 1
        if whole and instructions[-1].opcode is Opcode.END:
            reached += waits_reached(instructions[-1])
        self.add([*reached, *flight.points])
        self.runs += 1
        self.instructions += len(flight.completed)

    def add(self, points: Sequence[str]) -> None:
        """Add one hit to each of these points; points that are not declared are ignored."""
        self.hits.update(point for point in points if point in self.model.all_points)

    def missing(self) -> list[str]:
        """Return the declared points that were never reached, in the order of declaration."""
        return [
            point
            for points in self.model.points.values()
            for point in points
            if not self.hits[point]
        ]

    def unreached_by_reason(self) -> Counter[str]:
        """Count the points that were not reached and those that are excluded, by reason.

        Points that were declared but not reached are counted by group. Numbers in the reasons for
        exclusions are replaced by N, so that similar reasons are counted together.
        """
        absent: Counter[str] = Counter()
        for group, (reached, declared) in self.shares().items():
            if reached < declared:
                absent[f"declared in {group}, and not reached yet"] = declared - reached
        absent.update(re.sub(r"-?\d+", "N", why) for why in self.model.excluded.values())
        return absent

    def shares(self) -> dict[str, tuple[int, int]]:
        """Return the number of points reached and the number declared, by group."""
        return {
            group: (sum(1 for point in points if self.hits[point]), len(points))
            for group, points in self.model.points.items()
        }

    def merge(self, other: "Coverage") -> None:
        """Add the counts of `other` in place; raise `ValueError` if its configuration differs."""
        if other.config != self.config:
            raise UserError(
                f"coverage of configuration {other.config.digest:08x} cannot be merged into "
                f"coverage of {self.config.digest:08x}",
                hint="merge files of one configuration",
            )
        self.hits.update(other.hits)
        self.runs += other.runs
        self.instructions += other.instructions

    def as_dict(self) -> dict[str, Any]:
        """Return counts, missing and excluded points as a dictionary of JSON types."""
        return {
            "format": _FORMAT,
            "config": self.config.as_dict(),
            "runs": self.runs,
            "instructions": self.instructions,
            "groups": {
                group: {"reached": reached, "declared": declared}
                for group, (reached, declared) in self.shares().items()
            },
            "missing": self.missing(),
            "excluded": self.model.excluded,
            "hits": dict(sorted(self.hits.items())),
        }

    def save(self, path: Path) -> None:
        """Write a file that `load` reads."""
        path.write_text(json.dumps(self.as_dict(), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Coverage":
        """Read a coverage file; raise `ValueError` if it is not one."""
        try:
            stored = json.loads(path.read_text())
            if stored["format"] != _FORMAT:
                raise ValueError(f"it has format {stored['format']!r}, not {_FORMAT!r}")
            found = cls(Config.from_json(json.dumps(stored["config"])))
            hits = {str(point): int(count) for point, count in stored["hits"].items()}
            found.runs, found.instructions = int(stored["runs"]), int(stored["instructions"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UserError(
                f"{str(path)!r} is not a coverage file: {error}",
                hint="matloom verify writes coverage files",
            ) from error
        # Points that are no longer declared are dropped.
        found.hits = Counter(
            {each: n for each, n in hits.items() if each in found.model.all_points}
        )
        return found
