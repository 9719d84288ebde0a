"""Compares predicted with counted cycles on the simulated chip, by bandwidth and latency.

    python bench/memories.py [--config nano] [--quick]

Networks of the model collection, and the digits, are compiled for each memory, which the simulator
then has: a first call, and a later one if weights stay on chip. Results of other configurations
stay in docs/results/memories.json.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from matloom.arch.config import load_config
from matloom.arch.memory import Memory
from matloom.compiler import CompileOptions, compile_network
from matloom.device.driver import Driver
from matloom.device.open import memory_size_for, open_device
from matloom.device.rtl import MemoryTiming
from matloom.ir.graph import Graph
from matloom.runtime import Session
from matloom.tools.bench import CASES, graph_of
from support.reports import parse_with_report, read_report, write_report

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results" / "memories.json"

NETWORKS = ("ic", "kws", "vww", "ad", "digits")
CONFIGS = ("reference", "small", "nano")
RATES, LATENCIES = (8, 4, 2, 1), (16, 32, 64, 128)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measurement: a network on an engine with a memory."""

    network: str
    config: str
    bytes_per_cycle: int
    read_latency: int

    @property
    def memory(self) -> Memory:
        """The memory; writes are answered in a quarter of the read latency, as in the reference."""
        return Memory(
            bytes_per_cycle=self.bytes_per_cycle,
            read_latency=self.read_latency,
            write_latency=self.read_latency // 4,
        )


def points(config: str, *, quick: bool) -> list[Point]:
    """Return the measurements of a configuration: all latencies, at all rates its bus supports.

    With `quick`, only the lowest and the highest rate, and two latencies.
    """
    bus_bytes = load_config(config).bus_bytes
    rates = [rate for rate in RATES if rate <= bus_bytes]
    latencies = LATENCIES
    if quick:
        rates, latencies = [rates[0], rates[-1]], (32, 128)
    return [
        Point(network=network, config=config, bytes_per_cycle=rate, read_latency=latency)
        for network in NETWORKS
        for rate in rates
        for latency in latencies
    ]


def measure(point: Point, graph: Graph, driver: Driver) -> list[dict[str, Any]]:
    """Run a network with a memory on the simulated chip, as described by `point`.

    Return a row for its first call, and one for a later call with weights on chip.
    """
    options = CompileOptions(memory=point.memory, tuned=False)
    program = compile_network(graph, load_config(point.config), options, check="none")
    driver.transport.set_timing(MemoryTiming(memory=point.memory))  # type: ignore[attr-defined]
    rows = []
    with Session(program, driver, "rtl") as session:
        noise = np.random.default_rng(0)
        inputs = {
            info.name: noise.integers(-128, 128, info.shape).astype(info.dtype)
            for info in program.inputs
        }
        for call in ("first", "later"):
            session.run(inputs)
            report = session.report()
            if call == "first" or report.resident:
                row = {
                    "network": point.network,
                    "config": point.config,
                    "bytes_per_cycle": point.bytes_per_cycle,
                    "read_latency": point.read_latency,
                    "call": call,
                    "cycles": report.cycles,
                    "predicted_cycles": report.predicted_cycles,
                }
                rows.append(row)
    return rows


def main() -> None:
    """Measure the chosen configurations; keep the others as they are in the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", choices=CONFIGS, action="append")
    parser.add_argument("--quick", action="store_true", help="two rates and two latencies each")
    chosen = parse_with_report(parser, RESULTS, ("config", "quick"))
    configs = chosen.config or CONFIGS
    kept = read_report(chosen.report).get("results", [])
    results = [row for row in kept if row["config"] not in configs]
    graphs = {case.name: graph_of(case) for case in CASES if case.name in NETWORKS}
    for name in configs:
        driver = open_device("rtl", name, memory_bytes=memory_size_for(1 << 22))
        for point in points(name, quick=chosen.quick):
            graph = graphs[point.network]
            if graph is None:
                print(f"{point.network} skipped: the model collection is absent (MATLOOM_MODELS)")
                continue
            for row in measure(point, graph, driver):
                print(*row.values(), flush=True)
                results.append(row)
        driver.close()
        lines = ",\n".join(f"  {json.dumps(row)}" for row in results)
        write_report(chosen.report, f'{{"results": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
