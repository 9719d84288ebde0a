"""Commands that measure correctness: evaluate, compare."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from matloom.cli.group import cli
from matloom.cli.network_argument import NETWORK
from matloom.cli.options import SEED, Compilation, compilation
from matloom.cli.places import require_writable, write_file
from matloom.cli.programs import program_of
from matloom.cli.say import say, say_text, show
from matloom.errors import UserError

#: Number of random samples that `compare` draws at a time.
_MOST_SAMPLES = 10_000

#: Seconds before the first line on finished samples, and between lines.
_PATIENCE, _INTERVAL = 2.0, 5.0


@cli.command(
    examples=(
        "matloom evaluate net.tflite --input test.npz --labels y",
        "matloom evaluate net.tflite --input test.npz --labels y.csv:id --metric top5",
        "matloom evaluate digits --input x.npy --labels y.npy --device rtl --first 9",
    ),
)
@NETWORK
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    help="Samples: an .npz with arrays named like the inputs (the only input may be x); for a "
    "network of one input also an .npy, or a folder with an .npy for each sample.",
)
@click.option(
    "--labels",
    required=True,
    metavar="NAME|FILE.npy|FILE.csv[:COLUMN]",
    help="The labels: an array in the file of --input, or a file. They are classes counted from 0; "
    "for mse and mae, numbers.",
)
@click.option(
    "--metric",
    default="top1",
    show_default=True,
    metavar="top1|topK|auc|mse|mae",
    help="Metric to compute.",
)
@click.option("--output", metavar="NAME", help="Output to evaluate, if NET has several.")
@click.option("--first", type=click.IntRange(1), metavar="N", help="Use only the first N samples.")
@click.option(
    "--device",
    default="fast",
    show_default=True,
    help="fast, model, rtl, netlist, uart:PORT[@BAUD] or uio:[UIO[,DMABUF]].",
)
@compilation()
@click.option("--report", type=click.Path(path_type=Path), help="Write the result as JSON.")
def evaluate(
    network: Path,
    source: Path,
    options: Compilation,
    report: Path | None,
    first: int | None,
    **choice: Any,
) -> None:
    """Measure the accuracy of NET on labelled samples.

    Prints the metric with its 95 % interval, a table of classes, and cycles per sample. Device fast
    computes with the operators' kernels and reports predicted cycles.
    """
    from matloom.device.open import require_device
    from matloom.tools.arrays import read_samples
    from matloom.tools.evaluate import evaluate as measure
    from matloom.tools.labels import read_labels
    from matloom.tools.metrics import metric_rank

    metric_rank(choice["metric"])
    require_device(choice["device"])
    require_writable("--report", report)
    arrays = read_samples("--input", source)
    labels = read_labels(choice.pop("labels"), arrays)
    program = program_of(network, options)
    evaluation = measure(program, arrays, labels, progress=_progress(), first=first, **choice)
    if report is not None:
        write_file(report, evaluation.to_json())
    show((evaluation.table(), *evaluation.lines()))


@cli.command(
    examples=(
        "matloom compare digits",
        "matloom compare net.tflite --input in.npz",
        "matloom compare net_int8.tflite --against net_float.tflite",
        "matloom compare net.onnx --against onnxruntime",
    ),
)
@NETWORK
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    help="Samples, as for evaluate; random by default.",
)
@click.option(
    "--samples",
    type=click.IntRange(1, _MOST_SAMPLES),
    default=4,
    show_default=True,
    help="Number of random samples without --input.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the random samples.")
@click.option(
    "--against",
    "parent",
    type=click.Path(path_type=Path),
    help="Compare with this model file, such as the float network, not with an interpreter; or "
    "tflite-micro or onnxruntime: the interpreter of NET's format.",
)
@click.option("--report", type=click.Path(path_type=Path), help="Write the result as JSON.")
def compare(
    network: Path,
    source: Path | None,
    samples: int,
    seed: int,
    parent: Path | None,
    report: Path | None,
) -> None:
    """Compare NET with its reference runtime, layer by layer.

    Compares every tensor, for the samples of --input or for random ones. The reference is ONNX
    Runtime for an ONNX file, else TensorFlow Lite Micro, or LiteRT if TensorFlow Lite Micro refuses
    NET. Exit status 1 if anything differs. With --against FILE, it shows the error of each layer in
    real numbers, and differences do not change the exit status.
    """
    import json
    from dataclasses import asdict

    from matloom import frontend
    from matloom.terminal.progress import progress
    from matloom.tools.arrays import read_samples
    from matloom.tools.compare import compare as compare_with_reference
    from matloom.tools.parent_comparison import compare_with_parent
    from matloom.tools.samples import graph_samples

    require_writable("--report", report)
    given = None if source is None else read_samples("--input", source)
    parent = _reference_network(network, parent)
    result: Any
    with progress(f"comparing {network.name}"):
        if parent is not None:
            result = compare_with_parent(network, parent, given, samples=samples, seed=seed)
        else:
            arrays = None if given is None else graph_samples(frontend.load(network), given).arrays
            result = compare_with_reference(network, arrays, samples=samples, seed=seed)
    if report is not None:
        write_file(report, json.dumps(asdict(result), indent=2) + "\n")
    show([result.table()])
    say_text(str(result))
    sys.exit(0 if parent is not None or result.equal else 1)


#: Format of each interpreter's networks.
_INTERPRETERS = {"tflite-micro": "TensorFlow Lite", "onnxruntime": "ONNX"}


def _reference_network(network: Path, against: Path | None) -> Path | None:
    """Return the network that --against names; None if it names NET's own runtime."""
    from matloom import frontend

    if against is None or str(against) not in _INTERPRETERS or against.exists():
        return against
    found, wanted = frontend.load_complete(network)[0], _INTERPRETERS[str(against)]
    if found != wanted:
        raise UserError(
            f"--against {against} must go with a file of {wanted}, not of {found}",
            hint="leave --against out: the interpreter of the file's format is the default",
        )
    return None


def _progress() -> Callable[[int, int], None]:
    """Return a callback that prints the number of finished samples from time to time."""
    started = time.monotonic()
    due = started + _PATIENCE

    def print_progress(done: int, samples: int) -> None:
        """Print the progress and the estimated time left, if the last line is some seconds ago."""
        nonlocal due
        now = time.monotonic()
        if now >= due and done < samples:
            due = now + _INTERVAL
            spent = now - started
            left = spent / done * (samples - done)
            line = f"{done:,} of {samples:,} samples, {spent:.0f} s, about {left:.0f} s left"
            say(line, err=True)

    return print_progress
