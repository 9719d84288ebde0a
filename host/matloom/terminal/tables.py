"""Tables for terminals and pipes, in which names are shortened to fit the width."""

import copy
import io
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from matloom.ir.work import is_counted
from matloom.printable import printable
from matloom.terminal.console import PipeConsole

#: Width of text for a file or a pipe, in columns: practically unlimited.
_UNLIMITED = 1 << 16

#: Minimum width of a name, in columns.
_MIN_NAME_WIDTH = 9

_GAP = "..."


def plain_console(*, stderr: bool = False, markup: bool = False) -> Console:
    """Return a console as wide as the terminal, or of unlimited width for a file or a pipe.

    The environment variable COLUMNS overrides the width. Set `markup` only if no text contains
    names from files, which could be taken for markup.
    """
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _UNLIMITED
    return PipeConsole(stderr=stderr, width=width, highlight=False, markup=markup, emoji=markup)


def as_text(items: Iterable[Table | str]) -> str:
    """Return tables and lines as text, as wide as the terminal allows."""
    stream = io.StringIO()
    width = plain_console().width
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    for item in items:
        console.print(printable(item) if isinstance(item, str) else item)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def shorten(name: str, width: int) -> str:
    """Return a name that fits into `width` columns, shortened in the middle if necessary."""
    if cell_len(name) <= width:
        return name
    kept_columns = max(width - len(_GAP), 2)
    # Names of a network differ mostly at the end.
    front = kept_columns // 2
    back = chop_cells(name[::-1], kept_columns - front)[0][::-1]
    return f"{chop_cells(name, front)[0]}{_GAP}{back}"


def shorten_all(names: Sequence[str], width: int) -> list[str]:
    """Return names shortened to `width` columns; different names stay different where possible.

    Names that `shorten` would make equal are cut elsewhere: at the front, or around the place
    where they begin to differ. There is no room for that in fewer than nine columns.
    """
    alike: dict[str, set[str]] = defaultdict(set)
    for name in names:
        alike[shorten(name, width)].add(name)
    cut = {name: short for short, group in alike.items() for name in group}
    for group in alike.values():
        if len(group) > 1 and width >= _MIN_NAME_WIDTH:
            cut |= _most_distinct(sorted(group), width)
    return [cut[name] for name in names]


def _most_distinct(names: Sequence[str], width: int) -> dict[str, str]:
    """Shorten sorted names in several ways; return, by name, those of which most are distinct."""
    # Of sorted names, the first and the last have the least in common.
    ends = zip(names[0], names[-1], strict=False)
    first = next((at for at, (one, other) in enumerate(ends) if one != other), len(names[0]))
    room = width - len(_GAP)
    ways = (
        [shorten(name, width) for name in names],
        [_GAP + chop_cells(name[::-1], room)[0][::-1] for name in names],
        [_GAP + shorten(name[first:], room) for name in names],
        [_GAP + chop_cells(name[first:] or " ", room - len(_GAP))[0] + _GAP for name in names],
    )
    best = max(ways, key=lambda way: len(set(way)))
    return dict(zip(names, best, strict=True))


class NameTable(Table):
    """A table whose first column holds names, which are shortened to fit the width.

    A title that does not fit is shortened, too.

    Parameters
    ----------
    spare:
        Headings of columns that may be left out, in this order, if there is not enough room.
    least_width:
        Width to which names are shortened before a column is left out.
    """

    def __init__(
        self, title: str = "", *, spare: Sequence[str] = (), least_width: int = _MIN_NAME_WIDTH
    ) -> None:
        super().__init__(
            title=printable(title) or None,
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 0, 0, 1),
        )
        self.spare, self.least = tuple(spare), least_width

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row; control characters in texts are escaped."""
        shown = [printable(cell) if isinstance(cell, str) else cell for cell in cells]
        super().add_row(*shown, **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table, fitted to the width of the console."""
        fitted = self._fit(options.max_width)
        if isinstance(fitted.title, str):
            title = shorten(fitted.title, options.max_width)
            yield Text(title, style="bold", no_wrap=True, overflow="ignore")
            fitted.title = None
        yield from Table.__rich_console__(fitted, console, options)

    def _fit(self, width: int) -> "NameTable":
        """Return a copy of the table with columns left out and names shortened to fit a width."""
        fitted = copy.copy(self)
        fitted.columns = [copy.copy(column) for column in self.columns]
        spare = [name for name in self.spare if name in {str(c.header) for c in self.columns}]
        while spare and fitted._other_width() + self.least > width:
            left_out = spare.pop(0)
            fitted.columns = [c for c in fitted.columns if str(c.header) != left_out]
        for number, column in enumerate(fitted.columns):
            column._index = number
        names = fitted.columns[0]
        room = max(width - fitted._other_width(), self.least)
        names._cells = list(shorten_all([str(name) for name in self.columns[0].cells], room))
        return fitted

    def _other_width(self) -> int:
        """Return the width of all columns except the first, including the gaps between columns."""
        widths = [
            max(cell_len(line) for text in (c.header, *c.cells) for line in str(text).split("\n"))
            for c in self.columns[1:]
        ]
        return sum(widths) + 2 * len(widths)


def layer_table(
    title: str, words: Sequence[str], figures: Sequence[str], spare: Sequence[str] = ()
) -> NameTable:
    """Return an empty table; the columns in `words` are aligned left, those in `figures` right.

    The first column of `words` holds the names; `spare` has the columns that may be left out.
    """
    table = NameTable(title, spare=spare)
    for heading in words:
        table.add_column(heading, no_wrap=True)
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun, which gets an s unless the count is 1: ``2 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def macs_cell(operator: str, macs: int) -> str:
    """Return an operator's multiply-accumulates as text for a cell of a table.

    If there are none, the text is empty, or "unknown" for an operator whose MACs are not counted.
    """
    if macs:
        return f"{macs:,}"
    return "" if is_counted(operator) else "unknown"
