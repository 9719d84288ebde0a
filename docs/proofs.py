"""Tables of proofs, from docs/results/formal.json."""

import json
from pathlib import Path
from typing import Any

REPORT = Path(__file__).resolve().parent / "results" / "formal.json"


def _claims() -> list[dict[str, Any]]:
    """Return the claims of the report of proofs; none if there is no report."""
    return list(json.loads(REPORT.read_text())["claims"]) if REPORT.is_file() else []


def _configs(claim: dict[str, Any]) -> str:
    """Return the configurations for which a claim was proven; "all" for every one of the report."""
    every = json.loads(REPORT.read_text())["configs"]
    names = claim["configs"]
    return "all" if names == every else ", ".join(f"`{name}`" for name in names)


def _proofs() -> str:
    """Return a table with a row for each distinct formal claim."""
    lines = [
        "kind | unit | verdict | how | seconds | configurations",
        "--- | --- | --- | --- | ---: | ---",
    ]
    for claim in _claims():
        seconds = f"{claim['seconds']:.1f}" if claim["seconds"] else ""
        cells = (claim["kind"], claim["unit"], claim["verdict"], claim["method"], seconds)
        lines.append(" | ".join((*cells, _configs(claim))))
    return "".join(f"| {line} |\n" for line in lines)


def _statements() -> str:
    """Return a list of the statements that are proven, by kind of unit."""
    told: dict[tuple[str, str], list[str]] = {}
    for claim in _claims():
        units = told.setdefault((claim["kind"], claim["statement"]), [])
        name = claim["unit"].split(",")[0]
        if name not in units:
            units.append(name)
    return "".join(
        f"- {kind}, {', '.join(f'`{unit}`' for unit in units)}: {statement}.\n"
        for (kind, statement), units in told.items()
    )


BLOCKS = {"proofs": _proofs, "statements": _statements}
