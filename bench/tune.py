"""Gain of `matloom tune` on networks: cycles of the simulated chip, against the default.

    python bench/tune.py ../shared/wild/models --config reference --seconds 100
    python bench/tune.py --table              # the report again, as lines

Every network is compiled by default and tuned, and both run twice on the simulated chip with the
same random input; their outputs must be equal. Networks of more than --cycles are left out. The
report, docs/results/tune.json, is written after each network; networks in it are left out.
"""

import argparse
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from worker_arguments import add_workers, workers_of

from matloom import frontend
from matloom.arch.config import load_config
from matloom.compiler import CompileOptions, compile_network
from matloom.program import Program
from matloom.runtime import load
from matloom.tools.interface import random_arrays
from matloom.tuner.study import new_study, runs_of
from matloom.tuner.tune import Budget, tune
from matloom.workers import reused_executor
from support.reports import parse_with_report, read_report, write_report

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "tune.json"


def simulated_outputs(program: Program) -> list[dict[str, np.ndarray]]:
    """Return the outputs, by name, of two calls on the simulated chip with random inputs."""
    with load(program, device="rtl", memory=program.memory) as session:
        return [session.run(random_arrays(program, seed)) for seed in range(2)]


def measure_network(
    path: Path, config: str, arguments: argparse.Namespace
) -> dict[str, Any] | None:
    """Tune a network; return its entry of the report.

    Returns None if nothing of it runs on the engine, or its predicted cycles exceed the limit.
    """
    graph = frontend.load(path)
    study = new_study(graph, load_config(config), CompileOptions(tuned=False))
    cycles = sum(run.cost.first for run in runs_of(study))
    if not 0 < cycles <= arguments.cycles:
        return None
    begin, wall = time.process_time(), time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        reused_executor(workers_of(arguments).make) as make,
    ):
        budget = Budget(
            trials=arguments.trials, until=wall + arguments.seconds, measured=arguments.measured
        )
        found = tune(study, Path(folder) / "journal", budget, make)
    result = {
        "network": path.stem,
        "config": config,
        "trials": found.trials,
        "cpu_seconds": round(time.process_time() - begin, 1),
        "before": list(found.before),
        "after": list(found.after),
    }
    if found.winner is not None:
        options = CompileOptions(
            tuned=False, choices=found.winner.choices, left_out=found.winner.left_out
        )
        tuned = simulated_outputs(compile_network(graph, study.config, options))
        plain = simulated_outputs(compile_network(graph, study.config, CompileOptions(tuned=False)))
        result["equal"] = all(
            np.array_equal(one[name], other[name])
            for one, other in zip(plain, tuned, strict=True)
            for name in one
        )
    return result


def gain(entries: list[dict[str, Any]], call: int) -> float:
    """Return the geometric mean of cycles saved, for first calls (`call` 0) or later ones (1)."""
    ratios = [math.log(each["after"][call] / each["before"][call]) for each in entries]
    return 1 - math.exp(sum(ratios) / len(ratios))


def main() -> None:
    """Tune networks, and write the report after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--config", default="reference")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--measured", type=int, default=2)
    parser.add_argument("--cycles", type=int, default=1_000_000)
    add_workers(parser)
    parser.add_argument("--table", action="store_true")
    part = ("only", "seconds", "trials", "measured", "cycles")
    arguments = parse_with_report(parser, REPORT, part)
    report = read_report(arguments.report) or []
    known = {(each["network"], each["config"]) for each in report}
    if arguments.folder is not None:
        paths = sorted(arguments.folder.rglob("*.tflite"), key=lambda each: each.stat().st_size)
        for path in paths:
            if arguments.only in str(path) and (path.stem, arguments.config) not in known:
                made = measure_network(path, arguments.config, arguments)
                if made is not None:
                    print(json.dumps(made), flush=True)
                    report.append(made)
                    write_report(arguments.report, json.dumps(report, indent=1) + "\n")
    chosen = [each for each in report if each["config"] == arguments.config]
    for each in chosen:
        saved = [
            1 - after / before for before, after in zip(each["before"], each["after"], strict=True)
        ]
        print(f"{each['network']:44} {saved[0]:6.1%} first, {saved[1]:6.1%} later")
    if chosen:
        print(f"{'geometric mean':44} {gain(chosen, 0):6.1%} first, {gain(chosen, 1):6.1%} later")


if __name__ == "__main__":
    main()
