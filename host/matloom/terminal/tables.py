"""Tables of layers for terminals: words fold where there is no room, figures never do."""

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from matloom.ir.work import is_counted

__all__ = ["as_text", "layer_table", "macs_cell"]


def as_text(items: Iterable[Table | str]) -> str:
    """Return tables and lines as a text of 100 columns."""
    stream = io.StringIO()
    console = Console(file=stream, width=100, highlight=False, markup=False, emoji=False)
    for item in items:
        console.print(item)
    return stream.getvalue().rstrip()


def layer_table(title: str, words: Sequence[str], figures: Sequence[str]) -> Table:
    """Return an empty table with columns of words, then of figures, by their headings."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for heading in words:
        table.add_column(heading, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def macs_cell(operator: str, macs: int) -> str:
    """Return an operator's multiply-accumulates as a table cell, empty for none."""
    if not is_counted(operator):
        return "unknown"
    return f"{macs:,}" if macs else ""
