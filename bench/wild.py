"""Runs both model collections at three presets: where operators run, and whether all is exact.

    python bench/wild.py                      # all, into docs/results/wild.json; hours
    python bench/wild.py --presets nano       # adds to the report, or replaces in it
    python bench/wild.py --only tflm --rtl    # three inputs on the chip, too, at reference

Recorded outputs are those of consecutive calls of one interpreter, so one session runs them: its
first call loads all weights, later calls find those that stay. Integers must be equal, floats
within 1e-5 of the largest output. With --rtl, the simulated chip runs networks of fewer than 5
million predicted cycles. A compilation that exceeds --limit seconds of processor time is given up,
and the report says so. The report is written after each network.
"""

import argparse
import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from matloom import frontend
from matloom.arch.config import PRESETS as CONFIGS
from matloom.device.open import open_device
from matloom.program import Program
from matloom.runtime import Session, compile
from matloom.tools.bench import collection
from support.reports import parse_with_report, read_report, write_report
from support.roofline import roofline

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "wild.json"
COLLECTIONS = ("wild", "models")
PRESETS = ("reference", "small", "nano")

#: Which runtime recorded the outputs, the preferred one first.
KINDS = ("tflm", "ref")

#: Recorded inputs that run on the chip, and the predicted cycles of one above which none does.
ON_CHIP, MOST_CYCLES = 3, 5_000_000

#: Tolerance of floating-point outputs, relative to the largest one.
TOLERANCE = 1e-5


def load_recorded(folder: Path, name: str) -> tuple[str, list[np.ndarray], list[np.ndarray]]:
    """Return the runtime that recorded a network's outputs, its inputs, and the outputs."""
    with np.load(folder / "golden" / f"{name.replace('/', '__')}.npz") as golden:
        inputs = [golden[f"in{at}"] for at in range(100) if f"in{at}" in golden]
        kind = next(kind for kind in KINDS if f"out0_{kind}" in golden)
        keys = [f"out{at}_{kind}" for at in range(100)]
        return kind, inputs, [golden[key] for key in keys if key in golden]


def is_exact(session: Session, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> bool:
    """Return whether consecutive calls of a session give the recorded outputs."""
    infos, results = session.program.inputs, session.program.outputs
    equal = True
    for at in range(len(outputs[0])):
        given = {
            info.name: array[at].reshape(info.shape)
            for info, array in zip(infos, inputs, strict=True)
        }
        made = session.run(given)
        for info, expected in zip(results, outputs, strict=True):
            found, wanted = made[info.name].ravel(), expected[at].ravel()
            if found.dtype == np.float32:
                margin = TOLERANCE * np.abs(expected).max()
                equal &= bool((np.abs(found - wanted) <= margin).all())
            else:
                equal &= found.dtype == wanted.dtype and bool((found == wanted).all())
    return equal


def placement(program: Program) -> dict[str, Any]:
    """Return where the operators of a network run, its MACs and its predicted cycles."""
    host = Counter(layer.operator for layer in program.layers if layer.where == "host")
    return {
        "engine_operators": sum(layer.where == "engine" for layer in program.layers),
        "host_operators": dict(sorted(host.items())),
        "macs": program.macs,
        "engine_macs": program.engine_macs,
        "predicted_cycles": program.predicted_cycles,
        "repeats": program.repeat is not None,
    }


def _give_up(_number: int, _frame: Any) -> None:
    """Raise TimeoutError; a signal handler."""
    raise TimeoutError


def measure(
    folder: Path, name: str, preset: str, limit: float, *, rtl: bool = False
) -> dict[str, Any]:
    """Return the report's entry of a network at a preset."""
    kind, inputs, outputs = load_recorded(folder, name)
    entry: dict[str, Any] = {"collection": folder.name, "name": name, "preset": preset}
    entry |= {"expected": kind, "samples": len(outputs[0])}
    path = folder / "models" / f"{name}.tflite"
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        program = compile(path, preset, check="none")
    except TimeoutError:
        return {**entry, "compile_seconds": None, "limit_seconds": limit}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    entry["compile_seconds"] = round(time.process_time() - begin, 1)
    entry |= placement(program)
    entry["roofline"] = roofline(program.macs, frontend.load(path), CONFIGS[preset])
    entry["exact"] = is_exact(
        Session(program, open_device("model", preset), "model"), inputs, outputs
    )
    if rtl and 0 < program.predicted_cycles < MOST_CYCLES:
        session = Session(program, open_device("rtl", preset), "rtl")
        first, rest = ([array[part] for array in inputs] for part in (slice(1), slice(1, ON_CHIP)))
        equal = is_exact(session, first, [array[:1] for array in outputs])
        entry["cycles"] = session.report().cycles
        later = is_exact(session, rest, [array[1:ON_CHIP] for array in outputs])
        entry["exact_on_chip"] = equal and later
    return entry


def main() -> None:
    """Measure, and write the report after each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--presets", nargs="+", default=PRESETS, choices=PRESETS)
    parser.add_argument("--collections", nargs="+", default=COLLECTIONS, choices=COLLECTIONS)
    parser.add_argument("--rtl", action="store_true", help="run on the simulated chip, too")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of a compilation")
    part = ("only", "presets", "collections", "limit")
    chosen = parse_with_report(parser, REPORT, part)
    signal.signal(signal.SIGPROF, _give_up)
    results = read_report(chosen.report).get("results", [])
    entries = {(item["collection"], item["name"], item["preset"]): item for item in results}
    for preset in chosen.presets:
        for group in chosen.collections:
            folder = collection(group)
            if folder is None:
                raise SystemExit(f"a collection is absent: set MATLOOM_{group.upper()}")
            models = folder / "models"
            for path in sorted(models.rglob("*.tflite")):
                name = path.relative_to(models).with_suffix("").as_posix()
                if chosen.only not in name:
                    continue
                entry = measure(folder, name, preset, chosen.limit, rtl=chosen.rtl)
                print(json.dumps(entry), flush=True)
                entries[group, name, preset] = entry
                ordered = [entries[key] for key in sorted(entries)]
                write_report(chosen.report, json.dumps({"results": ordered}, indent=1) + "\n")


if __name__ == "__main__":
    main()
