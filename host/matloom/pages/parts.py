"""Elements of pages: key figures, tables, bars, legends, badges, collapsible texts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from matloom.pages.markup import Content, Markup, join, tag


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table.

    Members
    -------
    numeric:
        Whether cells are aligned to the right and sorted by value.
    hint:
        Explanation that is shown while the heading has the pointer or the focus.
    wide:
        Whether the column may be left out on a narrow screen.
    """

    title: str
    numeric: bool = False
    hint: str = ""
    wide: bool = False

    @property
    def style(self) -> str | None:
        """CSS classes of the column's cells, separated by spaces; None if it needs none."""
        return " ".join(["number"] * self.numeric + ["wide"] * self.wide) or None


def figures(items: Iterable[tuple[str, str, str]]) -> Markup:
    """Return key figures side by side; each item has a label, a value, and a note or ``""``."""
    return tag(
        "dl",
        (
            tag("div", tag("dt", label), tag("dd", value), tag("dd", note, class_="note"))
            for label, value, note in items
        ),
        class_="figures",
    )


def table(
    columns: Sequence[Column | str],
    rows: Iterable[Sequence[Content]],
    *,
    caption: str = "",
    sortable: bool = False,
    kinds: Iterable[str] = (),
) -> Markup:
    """Return a table that scrolls by itself if the screen is too narrow.

    Parameters
    ----------
    rows:
        Cells of each row, one for each column: texts, numbers or elements. The first cell is the
        row's heading.
    kinds:
        CSS class of each row: ``"good"``, ``"bad"``, ``"warn"``, ``"dim"`` or ``""``. It may be
        shorter than `rows`; further rows have none.
    """
    whole = [each if isinstance(each, Column) else Column(title=each) for each in columns]
    rows = list(rows)
    kinds = list(kinds)[: len(rows)]
    body = (_row(row, whole, kind) for row, kind in zip_longest(rows, kinds, fillvalue=""))
    made = tag(
        "table",
        tag("caption", caption) if caption else None,
        tag("thead", tag("tr", (_heading(each, sortable=sortable) for each in whole))),
        tag("tbody", body),
        class_="sortable" if sortable else None,
    )
    label = caption or "table"
    return tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=label)


def _heading(column: Column, *, sortable: bool) -> Markup:
    """Return the heading of a column, a button if rows can be sorted by it."""
    title: Content = column.title
    if sortable:
        title = tag("button", column.title, type="button", data_tip=column.hint or None)
    tip = None if sortable else column.hint or None
    return tag("th", title, scope="col", class_=column.style, data_tip=tip)


def _row(cells: Sequence[Content], columns: Sequence[Column], kind: Content) -> Markup:
    """Return a row of a table; `kind` is its CSS class, or empty."""
    first, *rest = zip(cells, columns, strict=True)
    return tag(
        "tr",
        tag("th", first[0], scope="row", class_=first[1].style),
        (tag("td", cell, class_=column.style) for cell, column in rest),
        class_=str(kind) or None,
    )


def stacked_bar(
    parts: Iterable[tuple[str, float, int]], total: float, *, label: str = ""
) -> Markup:
    """Return a horizontal bar of coloured parts, each with a name, a size and a colour (1 to 10).

    `total` is the size of a bar of full width; parts without a positive size are left out. `label`
    describes the bar for screen readers; by default, it lists the parts.
    """
    shown = [(name, size, colour) for name, size, colour in parts if size > 0]
    described = label or ", ".join(f"{name} {size:,.0f}" for name, size, _ in shown)
    boxes = (
        tag(
            "i",
            class_=f"c{colour}",
            style=f"width:{100 * size / total:.2f}%",
            data_tip=f"{name}: {size:,.0f} ({size / total:.1%})",
        )
        for name, size, colour in shown
        if total
    )
    return tag("span", boxes, class_="bar", role="img", aria_label=described)


def legend(items: Iterable[tuple[str, int]]) -> Markup:
    """Return a legend for bars; each item has a name and a colour (1 to 10)."""
    marks = (join(tag("li", tag("i", class_=f"c{colour}"), name)) for name, colour in items)
    return tag("ul", marks, class_="legend")


def badge(text: str, kind: str = "dim") -> Markup:
    """Return a short text on a coloured background: ``good``, ``bad``, ``warn`` or ``dim``."""
    return tag("span", text, class_=f"badge {kind}")


def details(title: str, *content: Content, is_open: bool = False) -> Markup:
    """Return a collapsible block: a title, and contents that a click on the title shows or hides.

    Contents that are text keep their line breaks.
    """
    shown = (
        tag("pre", each) if isinstance(each, str) and not isinstance(each, Markup) else each
        for each in content
    )
    return tag("details", tag("summary", title), *shown, open=is_open)
