"""Quantised networks compared with their float parents, and with another quantiser's.

    python bench/quantise.py                                   # into docs/results/quantise.json
    python bench/quantise.py --only kws --yardstick ENV/bin/python

Networks and labelled samples come from the collection. A seed draws 100 samples that calibrate
every quantiser; the other samples measure every result. `--yardstick` is the Python of an
environment with ai-edge-quantizer, which quantises the same file on the same samples. The
operators' kernels, which equal TensorFlow Lite Micro, then run all files.

`ad` has no float parent, so the weights of its int8 network are converted to floats. Its samples
are all normal recordings, so it has no accuracy. Noise is measured before SOFTMAX. The SQNR of
layers is the mean over the tensors that have the same name in both files; equalisation changes
the units of channels, so it is left out there.
"""

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import matloom
from matloom import frontend
from matloom.ir.graph import Array, Graph, Op
from matloom.passes.lower_precision import numbers
from matloom.quantiser.build import integers_of, real
from matloom.quantiser.measure import mcnemar, sqnr_db
from matloom.quantiser.prepare import prepared
from matloom.quantiser.samples import split_samples
from matloom.quantiser.sweep import swept
from matloom.tools.bench import collection
from matloom.tools.metrics import wilson

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "quantise.json"
SAMPLES = 100
CONFIG, NARROW = "reference", "reference+i8xi4"

#: Float parent (none for `ad`), published int8 network, labelled samples.
NETWORKS = {
    "ic": ("pretrainedResnet", "pretrainedResnet_quant", "dev_cifar_250"),
    "kws": ("kws_ref_model_float32", "kws_ref_model", "dev_kws_300"),
    "ad": (None, "ad01_int8", "dev_ad_normal196"),
}

#: Ways of quantising, by name: options of `matloom.quantise`.
WAYS = {
    "matloom": {},
    "matloom, not equalised": {"equalise": False},
    "matloom, minmax": {"calibration": "minmax"},
    "matloom, percentile": {"calibration": "percentile"},
    "matloom, kl": {"calibration": "kl"},
    "matloom, minmax, to nearest, nothing else": {
        "calibration": "minmax",
        "adaptive_rounding": False,
        "correct_bias": False,
        "equalise": False,
    },
    "matloom, i8xi4": {"precision": "i8xi4", "config": NARROW},
    "matloom, points=1": {"target": "points=1", "config": NARROW},
    "matloom, i16xi8": {"precision": "i16xi8"},
}

#: That quantiser wants a signature, which our files do not have.
YARDSTICK = """
import sys
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_quantizer import quantizer, recipe

source, data, target = sys.argv[1:]
model = schema.ModelT.InitFromPackedBuf(open(source, "rb").read(), 0)
graph = model.subgraphs[0]
signature = schema.SignatureDefT()
signature.signatureKey, signature.subgraphIndex = "serving_default", 0
signature.inputs, signature.outputs = [], []
for side, numbers in ((signature.inputs, graph.inputs), (signature.outputs, graph.outputs)):
    for number in numbers:
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = graph.tensors[number].name.decode(), number
        side.append(entry)
model.signatureDefs = [signature]
builder = flatbuffers.Builder(1024)
builder.Finish(model.Pack(builder), b"TFL3")
with np.load(data) as file:
    samples = [{file["name"].item(): sample} for sample in file["samples"]]
made = quantizer.Quantizer(bytes(builder.Output()), recipe.static_wi8_ai8())
made.quantize(made.calibrate({"serving_default": samples}), serialize_to_path=target)
"""


def floats(graph: Graph) -> Graph:
    """Return an int8 network of dense layers with its weights as floats."""
    tensors = {}
    for number, tensor in graph.tensors.items():
        if tensor.dtype == "int8":
            tensors[number] = numbers(tensor)
            if tensor.data is None:
                tensors[number] = replace(tensor, dtype="float32", quantisation=None)
        else:
            tensors[number] = tensor
    for node in graph.nodes:
        data, weights, bias = (graph.tensors[number] for number in node.inputs)
        scale = data.scale * weights.scale
        values = (bias.data * scale).astype(np.float32)
        tensors[node.inputs[2]] = replace(bias, dtype="float32", quantisation=None, data=values)
    return replace(graph, tensors=tensors)


def case(name: str) -> tuple[Graph, Graph, Array, Array | None]:
    """Return the float network, the published int8 network, samples as floats, and labels."""
    parent, published, labelled = NETWORKS[name]
    models = collection("models")
    folder = models / "models" / "mlperf_tiny"
    made = frontend.load(folder / f"{published}.tflite")
    with np.load(models / "labelled" / f"{labelled}.npz") as file:
        samples, labels = real(made.tensors[made.inputs[0]], file["x"]), file["y"]
    if parent is None:
        return floats(made), made, samples, None
    return frontend.load(folder / f"{parent}.tflite"), made, samples, labels


def tensors_of(graph: Graph, samples: Array) -> tuple[dict[str, Array], Array]:
    """Return all tensors by name in real numbers, and those before SOFTMAX."""
    (number,) = graph.inputs
    found: dict[str, Array] = {}
    last = samples
    given = {number: integers_of(graph.tensors[number], samples)}
    for _at, node, known in swept(graph, given):
        for made in node.outputs:
            values = real(graph.tensors[made], known[made])
            found[graph.tensors[made].name.split(";")[0].removesuffix(":int8")] = values
            last = values if node.op not in (Op.SOFTMAX, Op.DEQUANTIZE) else last
    return found, last


def row(graph: Graph, exact: tuple[dict[str, Array], Array], samples: Array, labels) -> dict:
    """Return the figures of a quantised network."""
    made, last = tensors_of(graph, samples)
    ratios = [
        sqnr_db(values, made[name])
        for name, values in exact[0].items()
        if name in made and made[name].shape == values.shape
    ]
    known = [ratio for ratio in ratios if ratio is not None]
    found = {
        "sqnr_db": sqnr_db(exact[1], last),
        "mean_sqnr_db": float(np.mean(known)) if known else None,
        "tensors": len(known),
    }
    if labels is not None:
        rows = [each.reshape(len(labels), -1).argmax(axis=1) for each in (exact[1], last)]
        same = int((rows[0] == rows[1]).sum())
        found |= {"agreement": same / len(labels), "interval": wilson(same, len(labels))}
        found |= {"accuracy": float((rows[1] == labels).mean())}
        found |= {"right": (rows[1] == labels).tolist()}
    return found


def by_yardstick(python: str, graph: Graph, samples: Array) -> Graph:
    """Return the network as ai-edge-quantizer quantises it, from the same samples."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "float.tflite").write_bytes(frontend.write(graph)[1])
        tensor = graph.tensors[graph.inputs[0]]
        np.savez(folder / "data.npz", name=tensor.name, samples=samples)
        (folder / "run.py").write_text(YARDSTICK)
        words = [python, "run.py", "float.tflite", "data.npz", "made.tflite"]
        # Without PYTHONPATH: the environment has packages of its own.
        subprocess.run(words, cwd=folder, check=True, capture_output=True, env={})
        return frontend.load(folder / "made.tflite")


def measured(name: str, yardstick: str | None, ways: list[str]) -> dict:
    """Return the figures of all quantisers for one network."""
    graph, published, samples, labels = case(name)
    network = prepared(graph)
    split = split_samples(network, samples, SAMPLES, seed=0)
    assert not set(split.chosen) & set(split.others)
    (number,) = network.inputs
    test = split.test[number]
    wanted = None if labels is None else labels[split.others]
    exact = tensors_of(network, test)
    rows = {}
    if wanted is not None:
        rows["float"] = row(network, exact, test, wanted)
        rows["published int8"] = row(published, exact, test, wanted)
    if yardstick is not None:
        other = by_yardstick(yardstick, network, split.calibration[number])
        rows["ai-edge-quantizer"] = row(other, exact, test, wanted)
    for way in ways:
        options = WAYS[way]
        began = time.process_time()
        made = matloom.quantise(network, samples, samples=SAMPLES, **{"config": CONFIG, **options})
        seconds = time.process_time() - began
        rows[way] = row(made.graph, exact, test, wanted)
        rows[way] |= {"cycles": made.report.cycles, "seconds": round(seconds, 1)}
        if made.report.options.equalise:
            # Its tensors have channels in other units.
            rows[way]["mean_sqnr_db"] = None
        print(name, way, {k: v for k, v in rows[way].items() if k != "right"}, flush=True)
    return compared(rows)


def compared(rows: dict) -> dict:
    """Return rows with the probability of McNemar's test against the first row."""
    best = rows.get("matloom", {}).get("right")
    for way, found in rows.items():
        right = found.pop("right", None)
        if right is not None and best is not None and way != "matloom":
            found["mcnemar"] = mcnemar(np.array(best), np.array(right))
    return rows


def main() -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", choices=NETWORKS, action="append")
    parser.add_argument("--yardstick", help="Python of an environment with ai-edge-quantizer")
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--report", type=Path, default=REPORT)
    options = parser.parse_args()
    report = json.loads(options.report.read_text()) if options.report.exists() else {}
    for name in options.only or NETWORKS:
        report[name] = measured(name, options.yardstick, options.way or list(WAYS))
        options.report.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
