"""Tables of layers for terminals: words fold where there is no room, figures never do."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

__all__ = ["layer_table"]


def layer_table(title: str, words: Sequence[str], figures: Sequence[str]) -> Table:
    """Return an empty table with columns of words, then of figures, by their headings."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for heading in words:
        table.add_column(heading, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
