"""Compiles whole transformers, quantised from floats, and shows how busy the multipliers are.

    python bench/transformers.py                        # all, into docs/results/transformers.json
    python bench/transformers.py --only 64x64x4 --rtl   # one size, also on the simulated chip

A size is tokens x width x heads. Networks have four blocks, an MLP of four times the width, random
weights, and random tokens for calibration; cycles do not depend on these.
"""

import argparse
import json
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

import matloom
from matloom.ir.graph import Graph
from support.reports import parse_with_report, write_report
from support.transformer_onnx import transformer_onnx

CONFIG = "reference+products=3+softmax=16+transposed_weights=1+zero_points=1"
REPORT = Path(__file__).resolve().parents[1] / "docs" / "results" / "transformers.json"
SIZES = list(product((64, 128, 196), (64, 128, 192), (1, 2, 3, 4)))
#: Inputs for calibration, and all inputs.
CALIBRATION, SAMPLES = 4, 6


def network(tokens: int, width: int, heads: int) -> Graph:
    """Return a quantised transformer, as a graph."""
    samples = np.random.default_rng(1).standard_normal((SAMPLES, tokens, 48)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(transformer_onnx(tokens, width, heads))
        return matloom.quantise(path, {"image": samples}, samples=CALIBRATION).graph


def measure(size: tuple[int, int, int], *, rtl: bool) -> dict[str, str | int | float]:
    """Return a row of the report: predicted cycles and, on request, those that the chip counts."""
    graph = network(*size)
    program = matloom.compile(graph, CONFIG)
    row: dict[str, str | int | float] = {
        "size": "x".join(map(str, size)),
        "macs": program.macs,
        "cycles": program.predicted_cycles,
        "on the host": sum(layer.where != "engine" for layer in program.layers),
        "steps": len(program.steps),
    }
    if rtl:
        with matloom.load(program, device="rtl") as session:
            (info,) = session.program.inputs
            session.run(np.random.default_rng(0).integers(-128, 128, info.shape, np.int8))
            row["counted"] = session.report().cycles
    return row


def main() -> None:
    """Measure the sizes that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="sizes such as 64x64x4")
    parser.add_argument("--rtl", action="store_true", help="run each on the simulated chip")
    options = parse_with_report(parser, REPORT, ("only",))
    rows = []
    for size in SIZES:
        if size[1] % size[2] or (options.only and "x".join(map(str, size)) not in options.only):
            continue
        rows.append(measure(size, rtl=options.rtl))
        print(json.dumps(rows[-1]), flush=True)
    write_report(options.report, json.dumps({"config": CONFIG, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
