"""Fills the tables of README.md and of the pages here from the reports: python docs/tables.py.

A table is made of a report's rows and of columns (`report_table.py`); neighbours of this file hold
them by subject.
"""

from collections.abc import Callable

import chip_tables
import coverage_tables
import mutation_tables
import network_tables
import peer_tables
import proofs
import speed_tables
from report_table import ROOT

import walkthrough

PAGES = (
    ROOT / "README.md",
    ROOT / "bitstreams" / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            *("how-a-conv2d-becomes-instructions", "numerics", "performance", "networks", "onnx"),
            *("pytorch", "quantising"),
            *("verification", "proofs", "campaigns"),
            "firmware",
            "boards",
        )
    ),
)

TABLES: dict[str, Callable[[], str]] = {
    **chip_tables.BLOCKS,
    **coverage_tables.BLOCKS,
    **mutation_tables.BLOCKS,
    **network_tables.BLOCKS,
    **peer_tables.BLOCKS,
    **proofs.BLOCKS,
    **speed_tables.BLOCKS,
    **walkthrough.BLOCKS,
}


def _fill_block(text: str, name: str, table: str) -> str:
    """Return the text with `table` between the markers of block `name`, if it has these markers."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    if begin not in text:
        return text
    head, rest = text.split(begin)
    _old, tail = rest.split(end)
    return f"{head}{begin}{table}{end}{tail}"


def fill(text: str) -> str:
    """Return a page's text with all its generated blocks replaced by current tables."""
    for name, make in TABLES.items():
        if f"<!-- {name}: begin -->" in text:
            text = _fill_block(text, name, make())
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text()))
