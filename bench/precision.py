"""Measures the loss of networks in bf16, fp16 and i8xi4: differences, and labelled accuracy.

    python bench/precision.py                 # into docs/results/precision.json
    python bench/precision.py --only i8xi4    # or float: printed; --report FILE renews a part

In float networks, weights that a file stores as int8 are dequantised, for float32 too. A float
network takes the labelled samples of its quantised sibling. Everything runs on the functional
model, whose results equal the chip's bit for bit; cycles of the quantised networks come from the
chip's counters.
"""

import argparse
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_network
from matloom.data.digits import NETWORK, held_out, input_quantisation, quantise
from matloom.ir.graph import Graph
from matloom.passes.choose_modes import choose_modes
from matloom.passes.lower_precision import widen_weights
from matloom.runtime import compile, load
from matloom.tools.bench import collection
from matloom.tools.precision import precision_report
from support.reports import parse_with_report, read_report, write_report

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

NARROW = dataclasses.replace(PRESETS["reference"], mac_modes=("i8xi8", "i8xi4"))

#: Quantised networks, their samples, and how many layers stay in int8: first ones, last ones.
QUANTISED = (
    ("mlperf_tiny/kws_ref_model", "dev_kws_300", ((0, 0), (1, 1))),
    ("mlperf_tiny/pretrainedResnet_quant", "dev_cifar_250", ((0, 0), (1, 1), (3, 1))),
)


def load_samples(models: Path, quantised_name: str, file: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a network's labelled inputs as float32, and their labels."""
    quantised = compile(models / "models" / f"{quantised_name}.tflite").inputs[0].quantised
    assert quantised is not None
    with np.load(models / "labelled" / f"{file}.npz") as found:
        integers = found["x"].astype(np.float32) - quantised.zero_point
        return integers * np.float32(quantised.scale), found["y"]


def measure(models: Path, name: str, quantised_name: str, file: str) -> list[dict[str, Any]]:
    """Return a network's accuracy and deviation in each precision."""
    inputs, labels = load_samples(models, quantised_name, file)
    results: list[dict[str, Any]] = []
    plain = None
    for precision in (None, "bf16", "fp16"):
        graph = widen_weights(frontend.load(models / "models" / f"{name}.tflite"))
        with load(graph, device="model", config=CONFIG, precision=precision) as session:
            (info,) = session.program.inputs
            outputs = np.array([session.run(x.reshape(info.shape)).ravel() for x in inputs])
            layers = sum(bool(layer.mode) for layer in session.program.layers)
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


def count_cycles(graph: Graph, table: dict[str, str] | None, sample: np.ndarray) -> int:
    """Return the chip's cycles for a sample; its results equal the model's."""
    program = compile_network(graph, NARROW, CompileOptions(tuned=False), table)
    with load(program, "rtl") as chip:
        outputs = chip.run(sample)
        cycles = chip.report().cycles
    with load(program, "model") as model:
        assert np.array_equal(outputs, model.run(sample))
    return cycles


def measure_four_bits(
    network: Path, inputs: np.ndarray, labels: np.ndarray, kept_layers: tuple[tuple[int, int], ...]
) -> Iterator[dict[str, Any]]:
    """Yield a network's accuracy, deviation and cycles in i8xi4, with layers left in int8."""
    graph = frontend.load(network)
    names = [graph.tensors[number].name for number in choose_modes(graph, "i8xi4")]
    for first, last in kept_layers:
        kept = names[:first] + names[len(names) - last :]
        table = {"*": "i8xi4", **dict.fromkeys(kept, "i8xi8")}
        report = precision_report(graph, table, inputs, labels, NARROW)
        noise = [layer.weights_sqnr_db for layer in report.layers if layer.weights_sqnr_db]
        (change,) = report.outputs
        result = {
            "network": graph.name,
            "left_in_int8": [first, last],
            "layers": len(noise),
            "least_weights_sqnr_db": round(min(noise), 1),
            "samples": report.samples,
            "accuracy_before": round(report.accuracy_before or 0, 4),
            "accuracy_after": round(report.accuracy_after or 0, 4),
            "agreement": round(change.agreement, 4),
            "largest_deviation": change.largest,
            "mean_deviation": change.mean,
            "predicted_before": report.cycles_before,
            "predicted_after": report.cycles_after,
            "cycles_before": count_cycles(graph, None, inputs[:1]),
            "cycles_after": count_cycles(graph, table, inputs[:1]),
        }
        print(result, flush=True)
        yield result


def measure_floats(models: Path) -> dict[str, Any]:
    """Return the report of the float networks."""
    results = [result for network in NETWORKS for result in measure(models, *network)]
    return {"config": CONFIG.as_dict(), "results": results}


def measure_narrowed(models: Path) -> dict[str, Any]:
    """Return the report of the quantised networks."""
    results = []
    for name, file, left in QUANTISED:
        with np.load(models / "labelled" / f"{file}.npz") as found:
            inputs, labels = np.concatenate(found["x"]), found["y"]
        results += measure_four_bits(models / "models" / f"{name}.tflite", inputs, labels, left)
    images, labels = held_out()
    results += measure_four_bits(
        NETWORK, quantise(images, *input_quantisation()), labels, ((0, 0), (1, 1))
    )
    return {"config": NARROW.as_dict(), "results": results}


PARTS = {"float": measure_floats, "i8xi4": measure_narrowed}


def main() -> None:
    """Measure the chosen parts; keep the others as they are in the report."""
    models = collection()
    if models is None:
        raise SystemExit("the model collection is absent: set MATLOOM_MODELS")
    parser = argparse.ArgumentParser(description="What networks lose in other precisions.")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS)
    chosen = parse_with_report(parser, REPORT, ("only",))
    report = read_report(chosen.report)
    for part in chosen.only:
        report[part] = PARTS[part](models)
        print(part, json.dumps(report[part]), flush=True)
        write_report(chosen.report, json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
