"""Float networks with layers in bf16 and fp16: how far from float32, and the labelled accuracy.

    python bench/precision.py                 # into docs/results/precision.json

Weights that a file keeps in int8 are the numbers they stand for, in float32 too. The labelled
samples are those of the quantised network beside each, likewise.
Everything runs on the functional model, which gives what the chip gives, bit for bit.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from matloom.arch.config import PRESETS
from matloom.bench import collection
from matloom.frontend.tflite import load_tflite
from matloom.passes.lower_precision import widen_weights
from matloom.runtime import compile, load

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "precision.json"
CONFIG = dataclasses.replace(
    PRESETS["reference"], float_rows=4, mac_modes=("i8xi8", "bf16", "fp16")
)

#: Float networks, their quantised sisters, and the samples of these.
NETWORKS = (
    ("mlperf_tiny/pretrainedResnet", "mlperf_tiny/pretrainedResnet_quant", "dev_cifar_250"),
    ("mlperf_tiny/kws_ref_model_float32", "mlperf_tiny/kws_ref_model", "dev_kws_300"),
)


def samples(models: Path, sister: str, file: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs as float32, and labels."""
    quantised = compile(models / "models" / f"{sister}.tflite").inputs[0].quantised
    assert quantised is not None
    with np.load(models / "labelled" / f"{file}.npz") as found:
        integers = found["x"].astype(np.float32) - quantised.zero_point
        return integers * np.float32(quantised.scale), found["y"]


def measure(models: Path, name: str, sister: str, file: str) -> list[dict[str, Any]]:
    """Return a network's accuracy and deviation in each precision."""
    inputs, labels = samples(models, sister, file)
    results: list[dict[str, Any]] = []
    plain = None
    for precision in (None, "bf16", "fp16"):
        graph = widen_weights(load_tflite(models / "models" / f"{name}.tflite"))
        with load(graph, device="model", config=CONFIG, precision=precision) as session:
            (info,) = session.program.inputs
            outputs = np.array([session.run(x.reshape(info.shape)).ravel() for x in inputs])
            layers = sum(layer.where == "engine" for layer in session.program.layers)
        plain = outputs if plain is None else plain
        deviation = np.abs(outputs - plain)
        results.append(
            {
                "network": name,
                "precision": precision or "float32",
                "engine_layers": layers,
                "samples": len(labels),
                "accuracy": round(float((outputs.argmax(1) == labels).mean()), 4),
                "largest_deviation": float(deviation.max()),
                "mean_deviation": float(deviation.mean()),
            }
        )
        print(results[-1], flush=True)
    return results


def main() -> None:
    """Measure and write the report."""
    models = collection()
    if models is None:
        raise SystemExit("the model collection is absent: set MATLOOM_MODELS")
    results = [result for network in NETWORKS for result in measure(models, *network)]
    REPORT.write_text(json.dumps({"config": CONFIG.as_dict(), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
