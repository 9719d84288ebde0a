"""Sweeps cycles over matrix size, bus width, memory latency and array size.

    python bench/sweeps.py                       # all, into docs/results/sweeps.json
    python bench/sweeps.py --only size latency   # without building other chips

The simulated chip counts the cycles. Each bus width and array size needs its own chip, which is
built once.
"""

import argparse
import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from matloom.arch.config import PRESETS, Config
from matloom.arch.memory import Memory
from matloom.data.matrix_products import product_graph
from matloom.device.rtl import MemoryTiming
from matloom.ir.graph import Graph
from matloom.runtime import load
from matloom.tools.bench import CASES, graph_of
from support.reports import parse_with_report, read_report, write_report
from support.roofline import roofline

REPORT = Path(__file__).resolve().parents[1] / "docs" / "results" / "sweeps.json"
REFERENCE = PRESETS["reference"]

SIZES = (16, 32, 64, 128, 256, 512, 1024)
BUS_BITS = (32, 64, 128, 256)
LATENCIES = (8, 16, 32, 64, 128, 256)
ARRAYS = (4, 8, 16, 32)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measurement of a sweep: a network on a chip, with a memory latency."""

    sweep: str
    value: int
    name: str
    graph: Graph
    config: Config = REFERENCE
    latency: int = 32


def array_config(size: int) -> Config:
    """Return `reference` with an array of `size` x `size` cells.

    There are as many lanes as columns, and accumulators in proportion.
    """
    return dataclasses.replace(
        REFERENCE,
        rows=size,
        columns=size,
        lanes=size,
        acc_bytes=REFERENCE.acc_bytes // REFERENCE.columns * size,
    )


def networks() -> dict[str, Graph]:
    """Return the networks of the sweeps: compute-bound and weight-bound ones."""
    chosen = {case.name: graph_of(case) for case in CASES if case.name in ("ic", "ad")}
    for name, graph in chosen.items():
        if graph is None:
            print(f"{name} skipped: the model collection is absent (MATLOOM_MODELS)")
    found = {name: graph for name, graph in chosen.items() if graph is not None}
    return {**found, "matmul 256": product_graph(256, 256, 256)}


def points(sweep: str) -> Iterator[Point]:
    """Yield the measurements of a sweep: "size", "bus", "latency" or "array"."""
    if sweep == "size":
        for size in SIZES:
            graph = product_graph(size, size, size)
            yield Point(sweep=sweep, value=size, name="matmul", graph=graph)
        return
    for name, graph in networks().items():
        for value in {"bus": BUS_BITS, "latency": LATENCIES, "array": ARRAYS}[sweep]:
            point = Point(sweep=sweep, value=value, name=name, graph=graph)
            if sweep == "latency":
                yield dataclasses.replace(point, latency=value)
            elif sweep == "bus":
                config = dataclasses.replace(REFERENCE, bus_bits=value)
                yield dataclasses.replace(point, config=config)
            else:
                yield dataclasses.replace(point, config=array_config(value))


def measure(point: Point) -> dict[str, int | str]:
    """Run one measurement on the simulated chip; return its row of the report."""
    # Compiled for the reference memory: the sweep shows what another one's latency costs.
    timing = MemoryTiming(memory=Memory(read_latency=point.latency))
    with load(point.graph, device="rtl", config=point.config, timing=timing) as session:
        noise = np.random.default_rng(0)
        inputs = {
            info.name: noise.integers(-128, 128, info.shape, np.int8)
            for info in session.program.inputs
        }
        session.run(inputs)
        report = session.report()
    return {
        "sweep": point.sweep,
        "value": point.value,
        "name": point.name,
        "macs": report.macs,
        "multipliers": point.config.rows * point.config.columns,
        "cycles": report.cycles,
        "predicted_cycles": report.predicted_cycles,
        "bound": roofline(report.macs, point.graph, point.config),
    }


def main() -> None:
    """Measure the chosen sweeps; keep the others as they are in the report."""
    sweeps = ("size", "latency", "bus", "array")
    parser = argparse.ArgumentParser(description="How cost grows.")
    parser.add_argument("--only", nargs="+", choices=sweeps, default=sweeps)
    parser.add_argument("--values", nargs="+", type=int, help="only these values of each sweep")
    chosen = parse_with_report(parser, REPORT, ("only", "values"))
    done = []
    for sweep in chosen.only:
        for point in points(sweep):
            if chosen.values is None or point.value in chosen.values:
                done.append(measure(point))
                print(f"{sweep} {point.value}, {point.name}: {done[-1]['cycles']:,} cycles")
    measured = {(item["sweep"], item["value"], item["name"]) for item in done}
    old = read_report(chosen.report).get("points", [])
    kept = [item for item in old if (item["sweep"], item["value"], item["name"]) not in measured]
    order = {sweep: index for index, sweep in enumerate(sweeps)}
    kept = sorted(kept + done, key=lambda item: (order[item["sweep"]], item["name"], item["value"]))
    write_report(chosen.report, json.dumps({"points": kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
