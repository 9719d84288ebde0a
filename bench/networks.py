"""Measures all TFLite networks of the collection: placement, cost, and exactness.

    python bench/networks.py                  # all, into docs/results/networks.json
    python bench/networks.py --only micro     # print those whose name contains this

Outputs are compared for all recorded inputs and all labelled samples on the functional model, and
for the first three inputs on the simulated chip, which also counts the cycles of the first. A
network that runs on the host alone has no cycles.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from matloom.device.driver import Driver
from matloom.device.open import open_device
from matloom.program import EngineStep, Program
from matloom.runtime import Session, compile
from matloom.tools.bench import collection
from support.reports import parse_with_report, write_report

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "networks.json"
CONFIG = "reference"

#: Recorded outputs, the first that exists: TensorFlow Lite Micro's, else LiteRT's.
EXPECTED = ("out0_tflm", "out0_ref")


#: Recorded inputs that run on the chip.
ON_CHIP = 3


def load_recorded(models: Path, name: str) -> tuple[str, list[np.ndarray], np.ndarray]:
    """Return a network's recorded run: the runtime that made it, the inputs, and the outputs."""
    with np.load(models / "golden" / f"{name.replace('/', '__')}.npz") as golden:
        inputs = [golden[key] for key in sorted(golden) if key.startswith("in")]
        kind = next(key for key in EXPECTED if key in golden)
        return kind, inputs, golden[kind]


def load_labelled(models: Path, name: str) -> tuple[list[np.ndarray], np.ndarray] | None:
    """Return a network's labelled samples and TensorFlow Lite Micro's outputs, or None."""
    for path in sorted((models / "labelled").glob("*.npz")):
        with np.load(path) as samples:
            if str(samples["model"]) == f"{name}.tflite":
                return [samples["x"]], samples["out_tflm"]
    return None


def difference(session: Session, inputs: list[np.ndarray], expected: np.ndarray) -> float:
    """Return the largest difference between a network's outputs and those recorded."""
    infos, (output,) = session.program.inputs, session.program.outputs
    largest = 0.0
    for at, wanted in enumerate(expected):
        given = {
            info.name: array[at].reshape(info.shape)
            for info, array in zip(infos, inputs, strict=True)
        }
        found = session.run(given)[output.name].astype(np.float64)
        largest = max(largest, float(np.abs(found.ravel() - wanted.ravel()).max()))
    return largest


def placement(program: Program) -> dict[str, Any]:
    """Return where the operators and the multiply-accumulates of a network run."""
    engine = [layer for layer in program.layers if layer.where == "engine"]
    host = Counter(layer.operator for layer in program.layers if layer.where == "host")
    return {
        "engine_operators": len(engine),
        "host_operators": dict(sorted(host.items())),
        "macs": program.macs,
        "engine_macs": program.engine_macs,
        "predicted_cycles": program.predicted_cycles,
    }


def measure(models: Path, name: str, devices: dict[str, Driver]) -> dict[str, Any]:
    """Return the report's entry of a network."""
    program = compile(models / "models" / f"{name}.tflite", CONFIG)
    kind, inputs, expected = load_recorded(models, name)
    entry = {"name": name, **placement(program), "expected": kind, "samples": len(expected)}
    entry["difference"] = difference(Session(program, devices["model"], "model"), inputs, expected)
    more = load_labelled(models, name)
    if more is not None:
        entry["labelled"] = len(more[1])
        entry["labelled_difference"] = difference(
            Session(program, devices["model"], "model"), *more
        )
    if any(isinstance(step, EngineStep) for step in program.steps):
        session = Session(program, devices["rtl"], "rtl")
        first = difference(session, inputs, expected[:1])
        report = session.report()
        entry["cycles"], entry["utilisation"] = report.cycles, round(report.utilisation, 4)
        entry["chip_samples"] = len(expected[:ON_CHIP])
        others = difference(session, [array[1:ON_CHIP] for array in inputs], expected[1:ON_CHIP])
        entry["chip_difference"] = max(first, others)
    return entry


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="networks whose name contains this")
    chosen = parse_with_report(parser, REPORT, ("only",))
    models = collection()
    if models is None:
        raise SystemExit("the model collection is absent: set MATLOOM_MODELS")
    folder = models / "models"
    names = [
        path.relative_to(folder).with_suffix("").as_posix()
        for path in sorted(folder.rglob("*.tflite"))
    ]
    devices = {device: open_device(device, CONFIG) for device in ("model", "rtl")}
    results = [measure(models, name, devices) for name in names if chosen.only in name]
    text = json.dumps({"config": CONFIG, "results": results}, indent=2) + "\n"
    if chosen.report is None:
        print(text)
    write_report(chosen.report, text)


if __name__ == "__main__":
    main()
