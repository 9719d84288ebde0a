"""Builds Markdown tables from the rows of a report and a description of each column."""

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
    """A column of a table: its heading, and functions that take and format a cell's value.

    `value` returns the value from a row of the report, None for an empty cell; `form` returns its
    text.
    """

    heading: str
    value: Callable[[Any], Any]
    form: Callable[[Any], str] = str


def report(name: str) -> Any:
    """Return the contents of a JSON report in docs/results, by file name."""
    return json.loads((RESULTS / name).read_text())


def table(rows: Iterable[Any], columns: Iterable[Column]) -> str:
    """Return a Markdown table of rows; the first column is left-aligned, the others right."""
    columns = list(columns)
    cells = [[_cell(column, row) for column in columns] for row in rows]
    return text_table([column.heading for column in columns], cells)


def _cell(column: Column, row: Any) -> str:
    """Return the text of a row's cell in a column; empty for None."""
    value = column.value(row)
    return "" if value is None else column.form(value)


def text_table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table, given the headings and the text of each cell."""
    headings = list(headings)
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def count(number: int) -> str:
    """Return a number with commas as thousands separators."""
    return f"{number:,}"


def megahertz(clock: float) -> str:
    """Return a clock in MHz as text, with one decimal place and its unit."""
    return f"{clock:.1f} MHz"
