"""The command quantise: turns a float network into integers."""

from pathlib import Path
from typing import Any

import click

from matloom.cli.group import cli
from matloom.cli.network_argument import NETWORK
from matloom.cli.options import SEED
from matloom.cli.places import name_in_errors, require_writable, write_file
from matloom.cli.say import say, show

#: Precisions of layers, as in `matloom.quantiser`.
_PRECISIONS = "i8xi8, i8xi4, i16xi8 or float32"


@cli.command(
    examples=(
        "matloom quantise net.tflite --data calibration.npz -o net_int8.tflite",
        "matloom quantise net.tflite --data samples.npz --labels y -o net_int8.tflite",
        "matloom quantise net.tflite --data x.npy -o small.tflite --precision i8xi4",
        "matloom quantise net.tflite --data x.npy -o out.tflite --report report.html",
        "matloom quantise net.tflite --data x.npy -o o.tflite --config small --boost O3",
        "matloom quantise net.tflite --data x.npy -o o.tflite --compress points=1",
    ),
)
@NETWORK
@click.option(
    "--data",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    help="Samples: an .npz with float arrays named like the inputs (the only input may be x); for "
    "a network of one input also an .npy, or a folder with an .npy for each sample.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The .tflite or .onnx file to write.",
)
@click.option(
    "--labels", metavar="NAME|FILE", help="Labels, as for evaluate: measure accuracy, too."
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Number of samples to calibrate on; the remaining ones measure the result.",
)
@click.option(
    "--precision",
    multiple=True,
    metavar="[LAYER=]MODE",
    help=f"{_PRECISIONS}; without LAYER, for all other layers. [default: i8xi8]",
)
@click.option(
    "--calibration",
    type=click.Choice(["minmax", "percentile", "mse", "kl"]),
    default="mse",
    show_default=True,
    help="Method that chooses the ranges of activations.",
)
@click.option(
    "--weight-scales",
    type=click.Choice(["per-channel", "per-tensor"]),
    default="per-channel",
    show_default=True,
    help="One scale of weights per output channel, or per tensor.",
)
@click.option(
    "--adaptive-rounding/--nearest",
    default=True,
    help="Round weights so that a layer's outputs change least, or to nearest.",
)
@click.option(
    "--correct-bias/--keep-bias",
    default=True,
    help="Correct biases so that each channel keeps its mean, or keep the biases.",
)
@click.option(
    "--equalise/--no-equalise",
    default=None,
    help="Balance channels between layers first, or not; tries both by default.",
)
@click.option(
    "--ends",
    type=click.Choice(["integers", "floats"]),
    default="integers",
    show_default=True,
    help="Type of the network's inputs and outputs.",
)
@click.option(
    "--seed", type=SEED, default=0, show_default=True, help="Seed of the choice of samples."
)
@click.option(
    "--config", metavar="PRESET[+CHANGE...]|FILE", help="Also predict cycles for this engine."
)
@click.option(
    "--target",
    metavar="points=N|cycles=N",
    help="Search which layers take 4-bit weights: for the fastest network that is expected to lose "
    "at most N percentage points of accuracy, or the most precise one of at most N cycles.",
)
@click.option(
    "--boost",
    type=click.Choice(["O1", "O2", "O3"]),
    help="O1: 8-bit weights. O2 and O3: the fewest cycles at an expected loss of half, or one, "
    "percentage point of accuracy. Lower levels are measured, too.",
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    help="File that keeps the trials of a search, which then continues where it stopped.",
)
@click.option(
    "--losses",
    is_flag=True,
    help="Also show the share of the loss that each layer causes; takes longer.",
)
@click.option(
    "--compress",
    metavar="points=N|sqnr=DB",
    help="Save cycles by rewriting layers as two of low rank, or with fewer channels, as long as "
    "at most N percentage points of accuracy are lost, or the SQNR of outputs is at least DB.",
)
@click.option(
    "--report", type=click.Path(path_type=Path), help="Write a report, as .json or .html."
)
def quantise(
    network: Path,
    source: Path,
    output: Path,
    labels: str | None,
    precision: tuple[str, ...],
    report: Path | None,
    **choices: Any,
) -> None:
    """Quantise a float NET on samples of its inputs.

    Writes a .tflite file of integers, or an .onnx file with QuantizeLinear and DequantizeLinear,
    and shows how close each layer and the outputs are to the float network. An .onnx file with
    QuantizeLinear and DequantizeLinear is quantised again.
    """
    from matloom.quantiser import page_of
    from matloom.quantiser import quantise as quantised
    from matloom.terminal.progress import progress
    from matloom.tools.arrays import read_samples
    from matloom.tools.labels import read_labels

    require_writable("--output", output)
    require_writable("--report", report)
    require_writable("--journal", choices["journal"])
    boost = choices.pop("boost")
    if boost is not None and choices["target"] is not None:
        raise click.UsageError("either --boost or --target must be given, not both")
    choices["target"] = boost or choices["target"]
    if report is not None and report.suffix not in (".json", ".html"):
        raise click.UsageError(f"--report must end in .json or .html, not {report.suffix!r}")
    arrays = read_samples("--data", source)
    classes = None if labels is None else read_labels(labels, arrays)
    with progress(f"quantising {network.name}"):
        made = quantised(
            network, arrays, labels=classes, precision=_precisions_by_layer(precision), **choices
        )
    with name_in_errors(output):
        made.save(output)
    if report is not None:
        html = report.suffix == ".html"
        write_file(report, page_of(made.report).to_html() if html else made.report.to_json())
    show((made.report.table(), *made.report.lines()))
    say(f"{output} written; run it with: matloom run {output} --input random")


def _precisions_by_layer(precision: tuple[str, ...]) -> dict[str, str]:
    """Return the precisions of --precision by layer name, ``*`` for all others."""
    pairs = (item.rpartition("=") for item in precision)
    return {layer or "*": mode for layer, _, mode in pairs}
