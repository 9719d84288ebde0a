"""Tables of coverage, from docs/results/coverage.json."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

REPORT = Path(__file__).resolve().parent / "results" / "coverage.json"

#: Signals and lines that the page names.
_NAMED = 12


def _report() -> dict[str, Any]:
    """Return the contents of the coverage report."""
    return dict(json.loads(REPORT.read_text()))


def _percent(part: int, whole: int) -> str:
    """Return a share as a percentage; empty if `whole` is 0."""
    return f"{100 * part / whole:.1f} %" if whole else ""


def _functional() -> str:
    """Return a table of covered and possible points by group, for each configuration."""
    rows = ["| configuration | group | declared | reached |", "| --- | --- | ---: | ---: |"]
    for config, found in _report()["functional"].items():
        rows += [
            f"| `{config}` | `{group}` | {item['declared']:,} | {item['reached']:,} |"
            for group, item in found["groups"].items()
        ]
    return "\n".join(rows) + "\n"


def _not_declared() -> str:
    """Return a table of the number of points that a configuration excludes, by reason."""
    rows = ["| configuration | reason | of |", "| --- | --- | ---: |"]
    for config, found in _report()["functional"].items():
        reasons = Counter(re.sub(r"-?\d+", "N", reason) for reason in found["excluded"].values())
        rows += [f"| `{config}` | {why} | {count} |" for why, count in reasons.most_common()]
    return "\n".join(rows) + "\n"


def _units() -> str:
    """Return a table of line and toggle coverage by unit, for each configuration."""
    named = ("lines_reached", "lines", "toggles_reached", "toggles")
    rows = [
        "| configuration | unit | lines | reached | toggles | reached |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for config, found in _report()["lines"].items():
        units = found["units"]
        total = {name: sum(unit[name] for unit in units.values()) for name in named}
        for name, unit in [*units.items(), ("all", total)]:
            lines, toggles = (_percent(unit[f"{k}_reached"], unit[k]) for k in ("lines", "toggles"))
            figures = f"{unit['lines']:,} | {lines} | {unit['toggles']:,} | {toggles}"
            rows.append(f"| `{config}` | `{name}` | {figures} |")
    return "\n".join(rows) + "\n"


def _exclusions() -> str:
    """Return a table of what is excluded from coverage, how often, and why."""
    rows = ["| configuration | excluded | points | what |", "| --- | --- | ---: | --- |"]
    for config, found in _report()["lines"].items():
        for name, reason in found["exclusions"].items():
            count = sum(unit["excluded"].get(name, 0) for unit in found["units"].values())
            rows.append(f"| `{config}` | `{name}` | {count:,} | {reason} |")
    return "\n".join(rows) + "\n"


def _missing() -> str:
    """Return a table of the signals with most toggles missing, for each configuration."""
    rows = ["| configuration | signal | toggles never seen |", "| --- | --- | ---: |"]
    for config, found in _report()["lines"].items():
        named = list(found["missing_toggles"].items())[:_NAMED]
        rows += [f"| `{config}` | `{signal}` | {count} |" for signal, count in named]
    return "\n".join(rows) + "\n"


BLOCKS = {
    "functional coverage": _functional,
    "not declared": _not_declared,
    "rtl coverage": _units,
    "rtl exclusions": _exclusions,
    "rtl missing": _missing,
}
