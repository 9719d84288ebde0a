"""Reports of measurements: the committed one stays as it is if only a part is measured."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PART = "a part is measured, or measured otherwise: --report FILE writes or renews a report"


def parse_with_report(
    parser: argparse.ArgumentParser, committed: Path, part: Sequence[str]
) -> argparse.Namespace:
    """Parse the command line of a measurement, with an option --report for its file.

    `part` names the options that choose a part of the measurements or change how they are made.
    Where one of them is given, `report` is None unless the command line names a file.
    """
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help=f"the JSON to write or renew; by default {committed.name}, if all is measured",
    )
    given = parser.parse_args()
    changed = any(getattr(given, name) != parser.get_default(name) for name in part)
    given.report = report_path(given.report, committed, whole=not changed)
    return given


def report_path(given: Path | None, committed: Path, *, whole: bool) -> Path | None:
    """Return the report to write: the given one, or the committed one of a whole measurement."""
    if given is None and not whole:
        print(_PART, file=sys.stderr)
        return None
    return given or committed


def read_report(path: Path | None) -> Any:
    """Return what a report holds; an empty dictionary if there is none."""
    return {} if path is None or not path.is_file() else json.loads(path.read_text())


def write_report(path: Path | None, text: str) -> None:
    """Write a report, completely or not at all; do nothing without a path."""
    if path is not None:
        partial = path.with_name(f"{path.name}.part")
        partial.write_text(text)
        partial.replace(path)
