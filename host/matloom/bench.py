"""The benchmark: cycles from the chip's counters, beside the targets, kept as a report."""

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from matloom.arch.config import Config
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.frontend.tflite import load_tflite
from matloom.ir.graph import Graph
from matloom.products import product_graph
from matloom.program import Program
from matloom.runtime import load

__all__ = ["CASES", "Case", "Result", "check", "collection", "run_bench", "table"]

#: More cycles than the committed report by this share fail a check.
_TOLERANCE = 0.02


@dataclass(frozen=True, kw_only=True)
class Case:
    """Something to measure: a network of the collection, the demo's, or a matrix product.

    `target` is the cycles that the project aims at for `reference`, None where there is none.
    """

    name: str
    model: str | None = None
    product: int | None = None
    target: int | None = None


#: Targets: the published goals of the project for 16x16, 64-bit bus, 32 cycles of latency.
CASES = (
    Case(name="digits"),
    Case(name="ic", model="mlperf_tiny/pretrainedResnet_quant.tflite", target=52_500),
    Case(name="kws", model="mlperf_tiny/kws_ref_model.tflite", target=14_300),
    Case(name="vww", model="mlperf_tiny/vww_96_int8.tflite", target=44_000),
    Case(name="ad", model="mlperf_tiny/ad01_int8.tflite", target=35_500),
    Case(name="matmul 128", product=128, target=9_100),
    Case(name="matmul 256", product=256, target=67_560),
    Case(name="matmul 512", product=512, target=529_600),
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """One measurement; times in seconds on the machine that made it."""

    name: str
    macs: int
    cycles: int
    predicted_cycles: int
    utilisation: float
    target: int | None
    exact: bool
    simulation_seconds: float
    simulated_kilocycles_per_second: float
    model_seconds: float
    compile_seconds: float
    stalls: dict[str, int]


def collection() -> Path | None:
    """Return the folder of the model collection, or None: `MATLOOM_MODELS`, else the usual place.

    The usual place is ``../shared/models`` beside the repository.
    """
    chosen = os.environ.get("MATLOOM_MODELS")
    beside = Path(__file__).resolve().parents[3] / "shared" / "models"
    folder = Path(chosen) if chosen else beside
    return folder if (folder / "models").is_dir() else None


def _graph(case: Case) -> Graph | None:
    if case.product is not None:
        return product_graph(case.product, case.product, case.product)
    if case.model is None:
        return load_tflite(NETWORK)
    folder = collection()
    return None if folder is None else load_tflite(folder / "models" / case.model)


def _inputs(program: Program) -> dict[str, np.ndarray]:
    noise = np.random.default_rng(0)
    return {info.name: noise.integers(-128, 128, info.shape, np.int8) for info in program.inputs}


def _measure(case: Case, graph: Graph, config: Config) -> Result:
    started = time.perf_counter()
    program = compile_network(graph, config)
    compiled = time.perf_counter() - started
    inputs = _inputs(program)
    with load(program, device="model") as model:
        model.run(inputs)
        started = time.perf_counter()
        expected = model.run(inputs)
        modelled = time.perf_counter() - started
    with load(program, device="rtl") as session:
        started = time.perf_counter()
        outputs = session.run(inputs)
        simulated = time.perf_counter() - started
        report = session.report()
    return Result(
        name=case.name,
        macs=report.macs,
        cycles=report.cycles,
        predicted_cycles=report.predicted_cycles,
        utilisation=round(report.utilisation, 4),
        target=case.target,
        exact=all(np.array_equal(outputs[name], expected[name]) for name in outputs),
        simulation_seconds=round(simulated, 3),
        simulated_kilocycles_per_second=round(report.cycles / simulated / 1000, 1),
        model_seconds=round(modelled, 3),
        compile_seconds=round(compiled, 3),
        stalls=report.stalls,
    )


def run_bench(config: Config, say: Callable[[str], None]) -> tuple[list[Result], list[str]]:
    """Measure every case; return the results, and a sentence for each case left out."""
    results, skipped = [], []
    for case in CASES:
        graph = _graph(case)
        if graph is None:
            skipped.append(f"{case.name} skipped: the model collection is absent (MATLOOM_MODELS)")
            continue
        say(f"measuring {case.name}")
        results.append(_measure(case, graph, config))
    return results, skipped


def table(results: list[Result], config_name: str) -> Table:
    """Return the results beside their targets."""
    shown = Table(title=f"configuration {config_name}, cycles from the chip's counters")
    shown.add_column("network")
    for heading in ("MACs", "cycles", "target", "utilisation", "predicted", "kcycles/s"):
        shown.add_column(heading, justify="right")
    shown.add_column("exact")
    for item in results:
        shown.add_row(
            item.name,
            f"{item.macs:,}",
            f"{item.cycles:,}",
            "" if item.target is None else f"{item.target:,}",
            f"{item.utilisation:.3f}",
            f"{item.predicted_cycles / item.cycles - 1:+.1%}",
            f"{item.simulated_kilocycles_per_second:,.0f}",
            "yes" if item.exact else "NO",
        )
    return shown


def to_json(results: list[Result], config: Config, config_name: str) -> str:
    """Return the report that is kept."""
    return (
        json.dumps(
            {
                "config": config_name,
                "config_digest": f"{config.digest:08x}",
                "machine": f"{platform.machine()}, {os.cpu_count()} cores",
                "results": [asdict(item) for item in results],
            },
            indent=2,
        )
        + "\n"
    )


def check(results: list[Result], kept: str) -> list[str]:
    """Return a sentence for each result that is worse than the kept report, or not exact."""
    before = {item["name"]: item for item in json.loads(kept)["results"]}
    problems = [f"{item.name}: the chip and the model differ" for item in results if not item.exact]
    for item in results:
        known = before.get(item.name)
        if known is not None and item.cycles > known["cycles"] * (1 + _TOLERANCE):
            problems.append(
                f"{item.name}: cycles must be at most {known['cycles']:,} + {_TOLERANCE:.0%}, "
                f"not {item.cycles:,}"
            )
    return problems
