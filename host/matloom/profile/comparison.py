"""Compares two profiles of a network, operator by operator."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matloom.errors import UserError
from matloom.ir.graph import short_name

#: Relative change of cycles above which a row is coloured.
_MIN_COLOURED_CHANGE = 0.02


@dataclass(frozen=True, kw_only=True)
class ComparedOperator:
    """Cycles of an operator in both profiles; None if a profile has no cycles of it."""

    title: str
    before: int | None
    after: int | None

    @property
    def change(self) -> str:
        """Relative change as text; empty if a profile has no cycles of it."""
        if not self.before or self.after is None:
            return ""
        return f"{self.after / self.before - 1:+.1%}"

    @property
    def difference(self) -> str:
        """Difference in cycles as text; missing cycles count as 0."""
        return f"{(self.after or 0) - (self.before or 0):+,}"

    @property
    def kind(self) -> str:
        """CSS class of the row: ``"warn"`` if slower, ``"good"`` if faster, empty if similar."""
        if not self.before or self.after is None:
            return ""
        change = self.after / self.before - 1
        if abs(change) <= _MIN_COLOURED_CHANGE:
            return ""
        return "warn" if change > 0 else "good"

    @staticmethod
    def format_cycles(cycles: int | None) -> str:
        """Return cycles as text; empty for None."""
        return "" if cycles is None else f"{cycles:,}"


@dataclass(frozen=True, kw_only=True)
class ProfileComparison:
    """Comparison of two profiles of a network; `name` describes the run of the earlier profile."""

    name: str
    before: int
    after: int
    rows: tuple[ComparedOperator, ...]

    @property
    def sentence(self) -> str:
        """Sentence with the total cycles of both profiles, and the change."""
        change = self.after / self.before - 1 if self.before else 0.0
        return f"{self.before:,} cycles there, {self.after:,} here: {change:+.1%}."


def compare_profiles(before: Mapping[str, Any], after: Mapping[str, Any]) -> ProfileComparison:
    """Return the comparison of two profiles, given as `Profile.as_dict` returns them.

    Operators are matched by the name of their output, in the order of `after`; those that only
    `before` has come last.
    """
    one, two = (_cycles_by_name(each) for each in (before, after))
    titles = {**_titles_by_name(before), **_titles_by_name(after)}
    names = [*two, *(name for name in one if name not in two)]
    rows = (
        ComparedOperator(title=titles[name], before=one.get(name), after=two.get(name))
        for name in names
    )
    parts = [before["engine"], before["device"]]
    if before["memory"] != after["memory"]:
        parts.append(f"memory {before['memory']}")
    return ProfileComparison(
        name=", ".join(parts),
        before=before["cycles"],
        after=after["cycles"],
        rows=tuple(rows),
    )


def _cycles_by_name(profile: Mapping[str, Any]) -> dict[str, int]:
    """Return the cycles of the operators that have any, by name."""
    return {each["name"]: each["cycles"] for each in profile["operators"] if each["cycles"]}


def _titles_by_name(profile: Mapping[str, Any]) -> dict[str, str]:
    """Return the titles of operators (number, kind and short name), by name."""
    return {
        each["name"]: f"{each['number']} {each['operator']} {short_name(each['name'])}"
        for each in profile["operators"]
    }


def is_profile(path: Path) -> bool:
    """Return whether a file exists and has the main members of a profile in JSON."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"format", "operators", "cycles"} <= set(found)


def read_profile(path: Path) -> dict[str, Any]:
    """Return a profile that `matloom profile` has written.

    Raises
    ------
    UserError
        The file cannot be read, or is not a profile.
    """
    hint = "name a profile.json that matloom profile NET -o DIR has written"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        complete = compare_profiles(found, found).before >= 0
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        complete = False
    if not complete:
        raise UserError(f"{str(path)!r} is not a profile", hint=hint)
    assert isinstance(found, dict)
    return found
