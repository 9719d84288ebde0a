"""Measures one layer of each class at `reference`, by the chip's counters.

    python bench/shapes.py                     # all, into docs/results/shapes.json
    python bench/shapes.py --only "ADD" "dw"   # those whose name begins with this
    python bench/shapes.py --check             # fail if a layer is slower than in the report

A layer follows a 1x1 convolution that computes its input. Layers that keep the shape are chained,
and cost half the difference between three and one. Others cost the difference between the network
with and without them. Rates are multiply-accumulates per cycle (256 at best), or, for layers
without products, bytes read or written per cycle, whichever are more.
"""

import argparse
import json
import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from shape_layers import SHAPES, Shape

from matloom.arch.config import PRESETS
from matloom.arch.csr import EXEC_CAUSES
from matloom.runtime import load
from support.reports import parse_with_report, read_report, write_report

REPORT = Path(__file__).resolve().parents[1] / "docs" / "results" / "shapes.json"
REFERENCE = PRESETS["reference"]

#: More cycles than the report's by this share fail a check.
TOLERANCE = 0.02
#: More cycles that a layer may take which rides along with another.
FUSED_SLACK = 50
#: Share of the cycles of the network without a layer below which it rides along with another.
FUSED = 0.05


def run(shape: Shape, copies: int) -> dict[str, int]:
    """Run the layer `copies` times on the simulated chip; return its counters."""
    graph = shape.network(copies)
    with load(graph, device="rtl", config=REFERENCE) as session:
        (info,) = session.program.inputs
        image = np.random.default_rng(0).integers(-128, 128, info.shape, np.int8)
        session.run({info.name: image})
        report = session.report()
        host = sum(layer.where == "host" for layer in session.program.layers)
    return report.counters | {"cycles": report.cycles, "macs": report.macs, "host": host}


def measure(shape: Shape) -> dict[str, Any]:
    """Return the cycles of a layer, its rate, and the longest wait of the array."""
    made = shape.output_map
    fewer, more = (1, 3) if made == shape.map else (0, 1)
    few, many = run(shape, fewer), run(shape, more)
    cost = {name: (many[name] - few[name]) // (more - fewer) for name in many}
    waits = {name: cost.get(name, 0) for name, _doc in EXEC_CAUSES[1:]}
    cause = max(waits, key=lambda name: waits[name])
    row = {"name": shape.name, "map": list(shape.map)}
    if cost["host"]:
        return row | {"cycles": 0, "host": True}
    if cost["cycles"] < FUSED * few["cycles"]:
        return row | {"cycles": max(0, cost["cycles"]), "fused": True}
    return row | {
        "cycles": cost["cycles"],
        "macs": cost["macs"],
        "bytes": max(prod(shape.map), prod(made)),
        "streaming": round(cost["exec_stream"] / cost["cycles"], 3),
        "wait": cause.removeprefix("exec_wait_"),
        "waiting": round(waits[cause] / cost["cycles"], 3),
    }


def row_key(row: dict[str, Any]) -> tuple[str, tuple[int, ...]]:
    """Return the key that identifies a row of the report: layer name and map size."""
    return row["name"], tuple(row["map"])


def slowdown(row: dict[str, Any], stored: dict[str, Any]) -> str | None:
    """Return a sentence if a layer takes more cycles than in the stored row, else None."""
    slack = FUSED_SLACK if stored.get("fused") else 0
    allowed = stored["cycles"] * (1 + TOLERANCE) + slack
    if row["cycles"] <= allowed:
        return None
    return (
        f"{row['name']} on {row['map']}: cycles must be at most {stored['cycles']:,} "
        f"+ {TOLERANCE:.0%} + {slack}, not {row['cycles']:,}"
    )


def main() -> int:
    """Measure the chosen layers, and store or check them; return 1 if one is slower, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of layers' names")
    parser.add_argument("--check", action="store_true", help="compare with the report")
    chosen = parse_with_report(parser, REPORT, ("only",))
    known = read_report(REPORT if chosen.check else chosen.report).get("layers", [])
    kept = {row_key(row): row for row in known}
    problems = []
    for shape in SHAPES:
        if not shape.name.startswith(tuple(chosen.only)):
            continue
        row = measure(shape)
        print(
            f"{shape.name} on {'x'.join(map(str, shape.map))}: {row['cycles']:,} cycles", flush=True
        )
        if chosen.check and row_key(row) in kept:
            problems.append(slowdown(row, kept[row_key(row)]))
        kept[row_key(row)] = row
    if chosen.check:
        found = [problem for problem in problems if problem]
        print(*found, sep="\n", file=sys.stderr)
        return bool(found)
    order = [(shape.name, shape.map) for shape in SHAPES]
    layers = [kept[each] for each in order if each in kept]
    report = {"config": "reference", "layers": layers}
    write_report(chosen.report, json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
