"""Quantised networks compared with the float originals, and with results of another quantiser.

    python bench/quantise.py                                   # into docs/results/quantise.json
    python bench/quantise.py --only kws --yardstick ENV/bin/python --rtl

Networks and labelled samples come from the collection. A hundred samples calibrate every
quantiser; others measure every result. `--yardstick` is the Python of an environment with
ai-edge-quantizer; ONNX Runtime's static quantiser is that of the installed package. The operators'
kernels, which equal TensorFlow Lite Micro, run all files but those of ONNX Runtime.

- `ic` and `kws`: a seed divides the labelled samples. They are few, so `ic` also has views of the
  photographs that measure it, without labels: LiteRT runs these, and their agreement is `views`.
- `vww`: the collection has 33 photographs with labels. Views of 16 calibrate, views of the other 17
  measure it, with the labels of their photographs; LiteRT runs five times as many.
- `ad` has no float parent, so the weights of its int8 network are converted to floats. Its samples
  are windows of one recording of a machine that works: the first 100 calibrate, those after them
  measure. Faults are made from these (`quantise_data.make_anomalies`), and the area under the curve
  (AUC) says how well the error of the reconstruction tells them apart.

`--rtl` also counts the cycles of one sample on the simulated chip (`count_cycles`).

Noise is measured before SOFTMAX. The SQNR of layers is the mean over the tensors that have the same
name in both files; equalisation changes the units of channels, so it is left out there. Both are of
the values that matter to their readers (`matloom.quantiser.relevant_values`), for every quantiser.
"""

import argparse
import json
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from quantise_data import draw_crops, make_anomalies
from quantise_yardsticks import (
    METHODS,
    logits_of,
    quantise_with_ai_edge,
    quantise_with_onnx_runtime,
    run_many,
)

import matloom
from matloom import frontend
from matloom.ir.graph import Array, Graph, Op
from matloom.passes.drop_unused import drop_unused_tensors
from matloom.passes.lower_precision import dequantise
from matloom.quantiser.integers import integers_of, real
from matloom.quantiser.judge import watched_tensors
from matloom.quantiser.measure import mcnemar, sqnr_db
from matloom.quantiser.prepare import prepare
from matloom.quantiser.relevant_values import clamp_to_relevant
from matloom.quantiser.run_nodes import run_nodes
from matloom.quantiser.samples import split_samples
from matloom.tools.bench import collection
from matloom.tools.metrics import wilson
from support.reports import parse_with_report, read_report, write_report

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "results" / "quantise.json"
SAMPLES = 100
CONFIG, NARROW = "reference", "reference+i8xi4"

#: Float parent (none for `ad`), published int8 network, labelled samples.
NETWORKS = {
    "ic": ("pretrainedResnet.tflite", "pretrainedResnet_quant", "dev_cifar_250"),
    "kws": ("kws_ref_model_float32.tflite", "kws_ref_model", "dev_kws_300"),
    "vww": ("vww_96_float.onnx", "vww_96_int8", "dev_vww_coco33"),
    "ad": (None, "ad01_int8", "dev_ad_normal196"),
}
#: Photographs whose views calibrate `vww`, views of the others that measure it, and frames of a
#: window of `ad`, which overlap.
KNOWN, VIEWS, FRAMES = 16, 300, 5

#: Ways of quantising, by name: options of `matloom.quantise`.
WAYS = {
    "matloom": {},
    "matloom, equalised": {"equalise": True},
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
    "matloom, points=0.5": {"target": "points=0.5", "config": NARROW},
    "matloom, i16xi8": {"precision": "i16xi8"},
}


#: Ways whose cycles `--rtl` counts.
COUNTED = ("matloom", "matloom, i8xi4", "matloom, points=0.5")


def dequantised_network(graph: Graph) -> Graph:
    """Return an int8 network of dense layers with its weights as floats."""
    tensors = {}
    for number, tensor in graph.tensors.items():
        if tensor.dtype == "int8":
            tensors[number] = dequantise(tensor)
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A float network, its published int8 network, and samples as floats.

    `test` has a label for each sample: a class, whether it is a fault, or none. `known` has the
    classes of `calibration`. `views` are shifted, mirrored and brightened copies of the samples of
    `test`, in turn, and `subjects` has the classes of these samples.
    """

    graph: Graph
    published: Graph | None
    calibration: Array
    test: Array
    labels: Array | None = None
    faults: bool = False
    known: Array | None = None
    views: Array | None = None
    subjects: Array | None = None

    @cached_property
    def float_classes(self) -> Array:
        """Class that the float network finds for each view."""
        return classes_of(self.graph, self.views)


def case(name: str) -> Case:
    """Return the networks and samples with this name."""
    parent, published, labelled = NETWORKS[name]
    models = collection("models")
    folder = models / "models" / "mlperf_tiny"
    made = frontend.load(folder / f"{published}.tflite")
    with np.load(models / "labelled" / f"{labelled}.npz") as file:
        samples, labels = real(made.tensors[made.inputs[0]], file["x"]), file["y"]
    if name == "vww":
        graph = channels_last(
            prepare(frontend.load_floats(models.parent / "onnx" / "models" / "mlcommons" / parent))
        )
        photographs, classes = (samples[:KNOWN, 0], samples[KNOWN:, 0]), labels[KNOWN:]
        return Case(
            graph=graph,
            published=None,
            calibration=draw_crops(photographs[0], SAMPLES, seed=0)[:, np.newaxis],
            test=draw_crops(photographs[1], VIEWS, seed=1)[:, np.newaxis],
            labels=classes[np.arange(VIEWS) % len(classes)],
            views=draw_crops(photographs[1], 5 * VIEWS, seed=2)[:, np.newaxis],
            subjects=classes,
        )
    if name == "ad":
        graph = prepare(dequantised_network(made))
        normal = samples[SAMPLES + FRAMES :]
        faulty = make_anomalies(normal[:, 0], seed=0)[:, np.newaxis]
        return Case(
            graph=graph,
            published=made,
            calibration=samples[:SAMPLES],
            test=np.concatenate([normal, faulty]),
            labels=np.arange(2 * len(normal)) >= len(normal),
            faults=True,
        )
    graph = prepare(frontend.load(folder / parent))
    split = split_samples(graph, samples, SAMPLES, seed=0)
    assert not set(split.chosen) & set(split.others)
    return Case(
        graph=graph,
        published=made,
        calibration=samples[split.chosen],
        test=samples[split.others],
        labels=labels[split.others],
        known=labels[split.chosen],
        views=_views(samples[split.others, 0]) if name == "ic" else None,
        subjects=labels[split.others],
    )


def channels_last(graph: Graph) -> Graph:
    """Return a network without the TRANSPOSE operator at its input."""
    first, *others = graph.nodes
    assert first.op is Op.TRANSPOSE
    return drop_unused_tensors(replace(graph, inputs=first.outputs, nodes=tuple(others)))


def _views(photographs: Array) -> Array:
    """Return ten augmented copies of each photograph (n, height, width, channels), as samples.

    Pixels are bytes; copies are shifted, mirrored or brightened (`draw_crops`).
    """
    return 255 * draw_crops(photographs / 255, 10 * len(photographs), seed=2)[:, np.newaxis]


def tensors_of(graph: Graph, samples: Array) -> tuple[dict[str, Array], Array]:
    """Run a network; return all tensors by name as real numbers, and the one before SOFTMAX."""
    (number,) = graph.inputs
    found: dict[str, Array] = {}
    last = samples
    given = {number: integers_of(graph.tensors[number], samples)}
    for _at, node, known in run_nodes(graph, given):
        for made in node.outputs:
            values = real(graph.tensors[made], known[made])
            found[short_name(graph.tensors[made].name)] = values
            last = values if node.op not in (Op.SOFTMAX, Op.DEQUANTIZE) else last
    return found, last


def short_name(name: str) -> str:
    """Return the name of a tensor without the suffixes that quantisers add."""
    return name.split(";")[0].removesuffix(":int8")


def report_row(
    case: Case, exact: tuple[dict[str, Array], Array], quantised: tuple[dict[str, Array], Array]
) -> dict:
    """Return the figures of a quantised network's tensors, of which the last is the output."""
    tensors, last = quantised
    graph = case.graph
    numbers = {short_name(tensor.name): number for number, tensor in graph.tensors.items()}
    whole = {numbers[name]: values for name, values in exact[0].items()}

    def ratio(number: int, values: Array) -> float | None:
        """Return the SQNR in dB of a tensor's `values`, as far as later operators see them."""
        matter = (
            clamp_to_relevant(graph, number, {**whole, number: v}) for v in (whole[number], values)
        )
        return sqnr_db(*matter)

    ratios = [
        ratio(numbers[name], tensors[name])
        for name, values in exact[0].items()
        if name in tensors and tensors[name].shape == values.shape
    ]
    known = [each for each in ratios if each is not None]
    found = {
        "sqnr_db": ratio(watched_tensors(graph)[0], last.reshape(exact[1].shape)),
        "mean_sqnr_db": float(np.mean(known)) if known else None,
        "tensors": len(known),
    }
    count, labels = len(case.test), case.labels
    if case.faults:
        errors = np.square(last - case.test).reshape(count, -1).mean(axis=1)
        return found | {"auc": roc_area(errors, labels)}
    rows = [each.reshape(count, -1).argmax(axis=1) for each in (exact[1], last)]
    same = int((rows[0] == rows[1]).sum())
    found |= {"agreement": same / count, "interval": wilson(same, count)}
    if labels is not None:
        found |= {"accuracy": float((rows[1] == labels).mean())}
        found |= {"right": (rows[1] == labels).tolist()}
    return found


def roc_area(scores: Array, faulty: Array) -> float:
    """Return the area under the ROC curve: how often a fault scores higher than a normal sample."""
    pairs = scores[faulty][:, np.newaxis] - scores[~faulty]
    return float((pairs > 0).mean() + (pairs == 0).mean() / 2)


def measure(name: str, reference: str | None, variants: list[str], *, rtl: bool) -> dict:
    """Return the figures of a network quantised by other tools and, in variants, by Matloom."""
    given = case(name)
    exact = tensors_of(given.graph, given.test)
    rows = {"float": report_row(given, exact, exact) | agreement_on_views(given, given.graph)}
    if given.published is not None:
        rows["published int8"] = report_row(given, exact, tensors_of(given.published, given.test))
        rows["published int8"] |= agreement_on_views(given, given.published)
    if reference is not None:
        other = quantise_with_ai_edge(reference, given.graph, given.calibration)
        rows["ai-edge-quantizer"] = report_row(given, exact, tensors_of(other, given.test))
        rows["ai-edge-quantizer"] |= agreement_on_views(given, other)
    for method in METHODS:
        results = quantise_with_onnx_runtime(given.graph, method, given.calibration, given.test)
        rows[f"onnxruntime, {method}"] = report_row(given, exact, ({}, results))
    for other, figures in rows.items():
        print_figures(name, other, figures)
    for way in variants:
        options = {"config": CONFIG, **WAYS[way]}
        began = time.process_time()
        quantised = matloom.quantise(
            given.graph,
            given.calibration,
            labels=given.known,
            samples=len(given.calibration),
            **options,
        )
        seconds = time.process_time() - began
        rows[way] = report_row(given, exact, tensors_of(quantised.graph, given.test))
        rows[way] |= {"cycles": quantised.report.cycles, "seconds": round(seconds, 1)}
        rows[way] |= agreement_on_views(given, quantised.graph)
        if rtl and way in COUNTED:
            rows[way]["counted"] = count_cycles(quantised.graph, options["config"], given.test[0])
        if quantised.report.options.equalise:
            # Its tensors have channels in other units.
            rows[way]["mean_sqnr_db"] = None
        print_figures(name, way, rows[way])
    return add_significance(rows)


def agreement_on_views(case: Case, quantised: Graph) -> dict:
    """Return how often LiteRT classifies views with a quantised network as the float network does.

    Also returns its confidence interval, and the share of views with the photograph's label.
    """
    if case.views is None or case.subjects is None:
        return {}
    found, count = classes_of(quantised, case.views), len(case.views)
    same = int((case.float_classes == found).sum())
    right = found == case.subjects[np.arange(count) % len(case.subjects)]
    return {
        "views": same / count,
        "views_interval": wilson(same, count),
        "views_accuracy": float(right.mean()),
    }


def classes_of(graph: Graph, samples: Array) -> Array:
    """Return the class that LiteRT finds for each sample."""
    integers = integers_of(graph.tensors[graph.inputs[0]], samples)
    return run_many(frontend.write(logits_of(graph))[1], integers).argmax(axis=1)


def count_cycles(graph: Graph, config: str, sample: Array) -> int:
    """Return the cycles of one call on the simulated chip, by its counters."""
    integers = integers_of(graph.tensors[graph.inputs[0]], sample)
    with matloom.load(graph, "rtl", config=config, check="none") as session:
        session.run(integers)
        return session.report().cycles


def print_figures(name: str, way: str, figures: dict) -> None:
    """Print the figures of network `name`, quantised in the way called `way`."""
    print(name, way, {key: each for key, each in figures.items() if key != "right"}, flush=True)


def add_significance(rows: dict) -> dict:
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
    parser.add_argument("--rtl", action="store_true", help="also count cycles on the chip")
    parser.add_argument("--way", choices=WAYS, action="append")
    options = parse_with_report(parser, REPORT, ("only", "way"))
    report = read_report(options.report)
    for name in options.only or NETWORKS:
        ways = options.way or list(WAYS)
        report[name] = measure(name, options.yardstick, ways, rtl=options.rtl)
        print(name, json.dumps(report[name]), flush=True)
        write_report(options.report, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
