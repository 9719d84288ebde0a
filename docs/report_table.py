"""A table of a page: the rows of a report, and columns that say how a row shows in each."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "ROOT", "Column", "count", "megahertz", "report", "table", "text_table"]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"


@dataclass(frozen=True)
class Column:
    """A column: its heading, what a row has in it, and how that is written.

    A value of None is an empty cell.
    """

    heading: str
    value: Callable[[Any], Any]
    form: Callable[[Any], str] = str


def report(name: str) -> Any:
    """Return a report of docs/results."""
    return json.loads((RESULTS / name).read_text())


def table(rows: Iterable[Any], columns: Iterable[Column]) -> str:
    """Return rows as a table: its first column to the left, the others to the right."""
    columns = list(columns)
    cells = [[_cell(column, row) for column in columns] for row in rows]
    return text_table([column.heading for column in columns], cells)


def _cell(column: Column, row: Any) -> str:
    value = column.value(row)
    return "" if value is None else column.form(value)


def text_table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of texts."""
    headings = list(headings)
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def count(number: int) -> str:
    """Return a number with commas."""
    return f"{number:,}"


def megahertz(clock: float) -> str:
    """Return a clock."""
    return f"{clock:.1f} MHz"
