"""Runs ONNX networks on the engine: the share that runs there, and whether outputs are equal.

    python bench/onnx_networks.py ../shared                   # all, for nano, on the model
    python bench/onnx_networks.py ../shared --only kws        # printed: names that contain this
    python bench/onnx_networks.py ../shared --config reference --device rtl --samples 3

The folder has collections of models with outputs recorded from ONNX Runtime. Each network is
compiled by default and with `exact`, and runs on the recorded inputs, then on random ones, for
which ONNX Runtime runs here. Integers behind outputs must be equal in every bit; floats are
compared relative to the largest output.

A full run writes each row to docs/results/onnx_networks.json as soon as it is measured; a run for
some networks writes to the file of --report alone. Rows with as many samples and the same packages
are kept; --again measures them again.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import matloom
from matloom.frontend.onnx.graph import GraphReader
from matloom.frontend.onnx.model import open_model
from matloom.frontend.onnx.shapes import infer_shapes
from matloom.frontend.onnx.sizes import set_sizes
from matloom.frontend.source import read_file
from matloom.ir.graph import Op
from matloom.kernels.onnx_sessions import onnx_session
from matloom.program import Program
from support.reports import parse_with_report, read_report, write_report

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "onnx_networks.json"


def networks(folder: Path, only: str) -> Iterator[tuple[str, Path, Path]]:
    """Yield the name of each network, its file, and the file of its recorded outputs."""
    for collection in ("onnx", "models"):
        models = folder / collection / "models"
        for path in sorted(models.rglob("*.onnx")):
            name = path.relative_to(models).with_suffix("").as_posix()
            golden = folder / collection / "golden" / f"{name.replace('/', '__')}.npz"
            if only in name and golden.exists():
                yield name, path, golden


def with_batch_of_one(path: Path) -> tuple[Any, dict[str, int]]:
    """Return a model with a batch of one, and the sizes of its dimensions."""
    model = open_model(read_file(path))
    constants = {each.name for each in model.graph.initializer}
    names = [
        dim.dim_param
        for value in model.graph.input
        if value.name not in constants
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    ]
    dims = dict.fromkeys(names, 1)
    set_sizes(model.graph, {}, dims)
    return infer_shapes(model), dims


def load_samples(golden: Path, model: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return recorded inputs by name, each with a first axis of samples, and outputs."""
    with np.load(golden) as data:
        names = [value.name for value in GraphReader(model, "").inputs]
        given = {name: data[f"in{at}"] for at, name in enumerate(names)}
        made = [key for key in data.files if key.startswith("out") and key.endswith(("ort", "all"))]
        return given, [
            data[key] for key in sorted(made, key=lambda key: int(key[3:].split("_")[0]))
        ]


def count_claims(model: Any, exact: bool) -> dict[str, int]:
    """Return how many layers and channels are proven equal to ONNX Runtime, or can differ."""
    found = GraphReader(model, "", exact=exact).rounding_differences()
    channels = [claim for claim in found if claim.channels]
    return {
        "layers": len(found),
        "proven": sum(claim.is_proven for claim in found),
        "channels": sum(claim.channels for claim in channels),
        "repaired": sum(claim.repaired for claim in channels),
        "can_differ": sum(claim.affected for claim in channels),
        "apart": sum(claim.run_by_onnxruntime for claim in channels),
        "sums_that_can_differ": sum(claim.differing for claim in channels),
        "floating_there": sum(claim.floating for claim in found),
    }


def relative_errors(
    program: Program, device: str, inputs: dict[str, Any], expected: list[Any]
) -> list[float]:
    """Return the largest difference of each sample, relative to the largest output."""
    with matloom.load(program, device=device) as session:
        names = [info.name for info in program.outputs]
        found = []
        for at in range(len(expected[0])):
            made = session.run({name: arrays[at] for name, arrays in inputs.items()})
            made = made if isinstance(made, dict) else {names[0]: made}
            found.append(
                max(
                    float(np.abs(made[name] - arrays[at]).max() / np.abs(arrays[at]).max())
                    for name, arrays in zip(names, expected, strict=True)
                )
            )
    return found


def add_random_samples(
    model: Any, recorded: tuple[dict[str, Any], list[Any]], count: int
) -> tuple[dict[str, Any], list[Any]]:
    """Return `count` samples: recorded ones, then random ones with the same mean and deviation.

    ONNX Runtime computes the outputs of the random ones. Samples are inputs by name, and outputs.
    """
    draw, session = np.random.default_rng(0), onnx_session(model.SerializeToString())
    given, wanted = recorded
    more = max(0, count - len(wanted[0]))
    drawn = {
        name: (draw.standard_normal((more, *data.shape[1:])) * data.std() + data.mean()).astype(
            data.dtype
        )
        for name, data in given.items()
    }
    outputs = [
        session.run(None, {name: data[at] for name, data in drawn.items()}) for at in range(more)
    ]
    return (
        {name: np.concatenate([data, drawn[name]])[:count] for name, data in given.items()},
        [
            np.stack([*data, *(each[at] for each in outputs)])[:count]
            for at, data in enumerate(wanted)
        ],
    )


def report_row(
    path: Path, golden: Path, exact: bool, options: argparse.Namespace
) -> dict[str, Any]:
    """Return the report's row of a network: where it runs, and how outputs compare."""
    model, dims = with_batch_of_one(path)
    given, wanted = add_random_samples(model, load_samples(golden, model), options.samples)
    program = matloom.compile(path, options.config, check="none", dims=dims, exact=exact)
    differences = relative_errors(program, options.device, given, wanted)
    kinds = [layer.operator for layer in program.layers if layer.where != "none"]
    return {
        "macs": program.macs,
        "engine_macs": program.engine_macs,
        "uncounted": list(program.uncounted),
        "transposes": kinds.count(str(Op.TRANSPOSE)),
        "samples": len(differences),
        "equal": sum(each == 0 for each in differences),
        "largest": max(differences),
        **count_claims(model, exact),
    }


def load_report(path: Path | None, only: str) -> dict[str, Any]:
    """Return the report so far, or an empty one if other package versions made it.

    Raises SystemExit in the latter case if only some networks are measured (`only`).
    """
    versions = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
    found: dict[str, Any] = read_report(path)
    if "runs" not in found or any(found[name] != each for name, each in versions.items()):
        if found and only:
            raise SystemExit(f"{path} is of other packages: measure all, or name another file")
        return {**versions, "runs": {}}
    return found


def main() -> None:
    """Run the networks, and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the collections are")
    parser.add_argument("--only", default="", help="part of a network's name")
    parser.add_argument("--config", default="nano", help="what to compile for")
    parser.add_argument("--device", default="model", help="what runs the programs")
    parser.add_argument("--samples", type=int, default=100, help="how many inputs")
    parser.add_argument("--again", action="store_true", help="measure rows that are there, too")
    part = ("only", "config", "device", "samples")
    arguments = parse_with_report(parser, REPORT, part)
    report = load_report(arguments.report, arguments.only)
    rows = report["runs"].setdefault(f"{arguments.config} {arguments.device}", {})
    for name, path, golden in networks(arguments.folder, arguments.only):
        known = rows.get(name, {}).get("exact", {}).get("samples") == arguments.samples
        if known and not arguments.again:
            continue
        rows[name] = {
            kind: report_row(path, golden, kind == "exact", arguments)
            for kind in ("default", "exact")
        }
        print(name, json.dumps(rows[name]), flush=True)
        write_report(arguments.report, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
