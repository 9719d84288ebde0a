"""Compiles both model collections with Arm's compiler for Ethos-U, and compares the results.

    python -m pip install '.[vela]'       # or, in another environment: pip install ethos-u-vela
    python bench/vela.py                  # all, into docs/results/vela.json; minutes
    python bench/vela.py --vela PATH      # the command `vela` of another environment
    python bench/vela.py --only kws       # print networks whose name contains this

Ethos-U55-256 has 256 int8 multipliers, as `reference`, and in Vela's `Sram_Only` a memory of 8
bytes per cycle that answers after 32; Ethos-U85-256 has four times that bandwidth. Their cycles are
Vela's estimates, without operators that it leaves to the processor. Both compilers run as whole
processes, one after the other, with one thread; seconds are processor time. Networks that Vela
leaves to the processor entirely have no cycles.
"""

import argparse
import csv
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from matloom.tools.bench import collection
from support.reports import parse_with_report, write_report

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "vela.json"
COLLECTIONS = ("models", "wild")
CONFIG = "reference"

#: Accelerators, each with the system that Vela's own file Arm/vela.ini describes for it.
SYSTEMS = {
    "ethos-u55-256": "Ethos_U55_High_End_Embedded",
    "ethos-u85-256": "Ethos_U85_SYS_Flash_High",
}

#: Seconds of `matloom compile`, by how much of the program is checked.
CHECKS = ("none", "sample")


def run_timed(command: list[str]) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Run a command with one thread; return its processor time in seconds, and its exit status."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(spent, 2), result


def estimate(vela: str, path: Path, accelerator: str) -> dict[str, Any]:
    """Return Vela's report of a network: operators on its engine and not, cycles, seconds."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, done = run_timed(
            [
                *(vela, "--config", "Arm/vela.ini", "--accelerator-config", accelerator),
                *("--system-config", SYSTEMS[accelerator], "--memory-mode", "Sram_Only"),
                *("--output-dir", folder, str(path)),
            ]
        )
        if done.returncode:
            reason = (done.stderr or done.stdout).strip().splitlines()[-1]
            return {"error": reason.replace(str(path), path.name)}
        (summary,) = Path(folder).glob("*_summary_*.csv")
        with summary.open() as lines:
            (row,) = csv.DictReader(lines)
    counts = re.findall(r"^(CPU|NPU) operators = (\d+)", done.stdout, re.MULTILINE)
    operators = {whose: int(number) for whose, number in counts}
    cycles = round(float(row["cycles_total"])) if operators["NPU"] else None
    return {
        "engine_operators": operators["NPU"],
        "other_operators": operators["CPU"],
        "estimated_cycles": cycles,
        "seconds": seconds,
    }


def compile_seconds(path: Path, check: str) -> float:
    """Return the processor time of `matloom compile` at reference, in seconds."""
    command = str(Path(sys.executable).with_name("matloom"))
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder) / "net.mloom")
        arguments = ["compile", str(path), "-o", output, "--config", CONFIG, "--check", check]
        seconds, done = run_timed([command, *arguments])
    if done.returncode:
        raise SystemExit(f"matloom compile must end well, not so: {done.stderr}")
    return seconds


def networks(only: str) -> Iterator[tuple[str, str, Path]]:
    """Return collection, name and file of the networks whose name contains a text."""
    for group in COLLECTIONS:
        folder = collection(group)
        if folder is None:
            raise SystemExit(f"a collection is absent: set MATLOOM_{group.upper()}")
        for path in sorted((folder / "models").rglob("*.tflite")):
            name = path.relative_to(folder / "models").with_suffix("").as_posix()
            if only in name:
                yield group, name, path


def command_of(chosen: str | None) -> str:
    """Return the path of the command `vela`: `chosen`, or found next to this Python or on PATH."""
    usual = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(chosen or "vela", path=usual)
    if found is None:
        raise SystemExit(
            f"{chosen or 'vela'} is absent: pip install ethos-u-vela, or name it by --vela"
        )
    return found


def vela_version(vela: str) -> str:
    """Return Vela's version, as it reports it."""
    result = subprocess.run([vela, "--version"], capture_output=True, text=True, check=True)
    return result.stdout.split()[-1]


def main() -> None:
    """Measure every network, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--vela", help="the command of Arm's compiler, where it is elsewhere")
    chosen = parse_with_report(parser, REPORT, ("only",))
    vela = command_of(chosen.vela)
    results = []
    for group, name, path in networks(chosen.only):
        entry: dict[str, Any] = {"collection": group, "name": name}
        entry |= {accelerator: estimate(vela, path, accelerator) for accelerator in SYSTEMS}
        entry["matloom_seconds"] = {check: compile_seconds(path, check) for check in CHECKS}
        print(json.dumps(entry), flush=True)
        results.append(entry)
    if chosen.report is not None:
        report = {
            "vela": vela_version(vela),
            "systems": SYSTEMS,
            "matloom": version("matloom"),
            "config": CONFIG,
            "results": results,
        }
        write_report(chosen.report, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
