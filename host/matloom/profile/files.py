"""Writes a profile as JSON, as CSV, and as node data for Model Explorer."""

import csv
import io
import json
from typing import Any

from matloom.printable import printable
from matloom.profile.causes import CAUSES
from matloom.profile.profile import Profile

#: Columns of the CSV file before those of the causes.
_COLUMNS = (
    *("number", "name", "operator", "where", "mode", "macs", "cycles", "predicted_cycles"),
    *("macs_per_cycle", "utilisation", "bytes_read", "bytes_written"),
)


def to_json(profile: Profile) -> str:
    """Return the profile as a JSON text."""
    return json.dumps(profile.as_dict(), indent=1) + "\n"


def to_csv(profile: Profile) -> str:
    """Return a CSV text with a row for each operator: cost, bytes, and cycles by cause."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*_COLUMNS, *(f"cycles_{cause.name}" for cause in CAUSES)])
    for each in profile.operators:
        figures = {
            "macs_per_cycle": f"{each.rate:.2f}",
            "utilisation": f"{each.utilisation:.4f}",
            "name": _safe_cell(each.name),
        }
        row = [figures.get(name, getattr(each, name, "")) for name in _COLUMNS]
        writer.writerow([*row, *(each.causes.get(cause.name, 0) for cause in CAUSES)])
    return stream.getvalue()


def _safe_cell(name: str) -> str:
    """Return a name that a spreadsheet does not interpret as a formula."""
    shown = printable(name)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@") else shown


def to_node_data(profile: Profile) -> str:
    """Return the cycles of operators as node data for Model Explorer, a JSON text.

    The format is `GraphNodeData` of its `node_data_builder`: results by the name of an output
    tensor, and colours from the smallest to the largest result.
    """
    results: dict[str, Any] = {
        each.name: {"value": each.cycles} for each in profile.operators if each.cycles
    }
    data = {
        "name": f"cycles on {profile.engine}",
        "results": results,
        "gradient": [
            {"stop": 0, "bgColor": "#e8f0fb"},
            {"stop": 0.5, "bgColor": "#f7c873"},
            {"stop": 1, "bgColor": "#e0604c"},
        ],
    }
    return json.dumps(data, indent=1) + "\n"
