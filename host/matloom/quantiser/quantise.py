"""Quantises a network: calibrates, builds, measures, writes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom import frontend
from matloom.errors import UserError
from matloom.frontend.readers import Source
from matloom.ir.graph import Array, Graph
from matloom.ir.operators import OPERATORS
from matloom.quantiser.build import BuildStep, QuantisationPlan, build
from matloom.quantiser.calibrate import Calibration, calibrated, planned
from matloom.quantiser.measure import Closeness, closeness, outputs_of_both, sqnr_db
from matloom.quantiser.options import Options
from matloom.quantiser.padding import separate_padding
from matloom.quantiser.precisions import layer_precisions
from matloom.quantiser.prepare import prepared
from matloom.quantiser.report import LayerQuality, QuantisationReport
from matloom.quantiser.samples import SampleSplit, split_samples
from matloom.quantiser.scales import LEVELS
from matloom.quantiser.search import Goal, search
from matloom.terminal.progress import note

__all__ = ["QuantisedNetwork", "quantise"]


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantisedNetwork:
    """A quantised network.

    Members
    -------
    graph:
        The network as a graph, which `matloom.load` and `matloom.compile` take.
    content:
        The same as a TensorFlow Lite file.
    """

    graph: Graph
    content: bytes
    report: QuantisationReport

    def onnx(self) -> bytes:
        """Return an ONNX file, whose inputs and outputs are floats.

        8-bit tensors lie between QuantizeLinear and DequantizeLinear. Results are those of ONNX
        Runtime, which rounds otherwise than TensorFlow Lite Micro does.

        Raises
        ------
        UserError
            ONNX has no such operator, or activations have 16 bits.
        """
        try:
            return frontend.write(self.graph, ".onnx")[1]
        except ValueError as error:
            raise UserError(
                f"{self.report.network} cannot be written as an .onnx file: {error}",
                hint="write a .tflite file",
            ) from None

    def save(self, path: str | Path) -> None:
        """Write a TensorFlow Lite file, or an ONNX file if the path ends in ``.onnx``."""
        path = Path(path)
        path.write_bytes(self.onnx() if path.suffix == ".onnx" else self.content)


def quantise(
    model: Source | Graph,
    data: Array | Mapping[str, Array],
    *,
    labels: npt.ArrayLike | None = None,
    samples: int = 100,
    precision: str | Mapping[str, str] = "i8xi8",
    config: str | None = None,
    target: str | None = None,
    **choices: Any,
) -> QuantisedNetwork:
    """Return a float network with integer weights and activations.

    At most `samples` of the samples, drawn by a seed, calibrate the network; it is measured on all
    others, or on the same ones if there are no others.

    Parameters
    ----------
    model:
        A float network: a model file, its bytes, or a graph.
    data:
        Samples as for `matloom.evaluate`: float32 arrays by the names of the inputs, or one array.
    labels:
        Class of each sample, to measure the accuracy too.
    precision:
        ``"i8xi8"``, ``"i8xi4"`` (weights of four bits in convolutions and dense layers) or
        ``"i16xi8"`` for all layers; or a table by the names of layers, in which ``*`` stands for
        all others, and ``float32`` leaves one as it is.
    config:
        Configuration to predict cycles for; None predicts none.
    target:
        Search for a mixture of 8-bit and 4-bit weights instead of taking `precision`:
        ``"points=0.5"``, the fastest whose results differ from the float network's on at most so
        many percent more of the calibration samples than with 8-bit weights; or
        ``"cycles=60000"``, the most accurate of at most so many cycles. `config` must have the mode
        i8xi4.
    choices:
        Members of `Options`.

    Raises
    ------
    UserError
        The network is quantised already or has no layers, the samples do not fit it or are not
        finite, or an option is wrong.
    """
    options, goal = _options(choices), None if target is None else Goal.parse(target)
    source = model if isinstance(model, Graph) else frontend.load_floats(model)
    exact = prepared(source)
    split = split_samples(exact, data, samples, options.seed)
    classes = _labels(labels, split)
    note("observing the float network")
    calibration = calibrated(exact, split.calibration, options)
    found = None
    if goal is not None:
        engine = config or "reference"
        found = search(calibration, split.calibration, options, goal, engine)
        precision = dict.fromkeys(found.chosen.layers, "i8xi4")
    made, layers = _made(calibration, split, precision, options)
    content = _file(made)
    note("measuring")
    report = QuantisationReport(
        network=source.name,
        options=options,
        calibrated=tuple(split.chosen.tolist()),
        tested=tuple(split.measured.tolist()),
        layers=layers,
        outputs=_outputs(exact, made, split, classes),
        bytes_before=len(_file(exact)),
        bytes_after=len(content),
        search=found,
    )
    if config is not None:
        report = _with_cycles(report, made, config)
    return QuantisedNetwork(graph=made, content=content, report=report)


def _made(
    calibration: Calibration,
    split: SampleSplit,
    precision: str | Mapping[str, str],
    options: Options,
) -> tuple[Graph, tuple[LayerQuality, ...]]:
    """Return the quantised network, and how close its layers are."""
    exact = calibration.graph
    kinds, bits = layer_precisions(exact, precision)
    plan = planned(calibration, kinds, bits, options)
    layers: list[LayerQuality] = []

    def observe(step: BuildStep) -> None:
        note(f"operator {step.at + 1} of {len(exact.nodes)}, {step.node.op}")
        if step.exact.dtype == np.float32:
            layers.append(_quality(calibration, plan, step))

    made = build(calibration.graph, plan, split.calibration, observe)
    return made, tuple(layers)


def _file(graph: Graph) -> bytes:
    """Return a graph as a TensorFlow Lite file."""
    return frontend.write(separate_padding(graph))[1]


def _options(choices: Mapping[str, Any]) -> Options:
    known = Options.__dataclass_fields__
    for name in choices:
        if name not in known:
            raise UserError(f"an option must be one of {', '.join(known)}, not {name!r}")
    return Options(**choices)


def _labels(labels: npt.ArrayLike | None, split: SampleSplit) -> npt.NDArray[np.int64] | None:
    """Return the labels of the test samples."""
    if labels is None:
        return None
    given, total = np.asarray(labels).reshape(-1), len(split.chosen) + len(split.others)
    if given.dtype.kind not in "iu" or len(given) != total:
        raise UserError(
            f"labels must be {total} integers, one for each sample, not {len(given)} of "
            f"{given.dtype}"
        )
    return given[split.measured].astype(np.int64)


def _quality(calibration: Calibration, plan: QuantisationPlan, step: BuildStep) -> LayerQuality:
    """Return how close an output is to the float network's."""
    histogram = calibration.histograms[step.number]
    kind, low, high, saturated = step.tensor.dtype, 0.0, 0.0, 0.0
    if kind in LEVELS:
        low, high = plan.ranges[step.number]
        beyond = (step.exact < low) | (step.exact > high)
        saturated = float(beyond.mean())
    weighted = OPERATORS[step.node.op].weight_axis is not None and kind in LEVELS
    return LayerQuality(
        name=step.tensor.name,
        operator=str(step.node.op),
        kind=kind,
        bits=plan.bits[step.at] if weighted else None,
        low=low,
        high=high,
        least=histogram.low,
        largest=histogram.high,
        saturated=saturated,
        sqnr_db=sqnr_db(step.exact, step.rounded),
    )


def _outputs(
    exact: Graph, made: Graph, split: SampleSplit, labels: npt.NDArray[np.int64] | None
) -> tuple[Closeness, ...]:
    pairs = outputs_of_both(exact, made, split.test)
    found = []
    for number, pair in zip(exact.outputs, pairs, strict=True):
        rows = pair[0].size // max(pair[0].shape[-1], 1)
        fits = labels is not None and rows == len(labels)
        found.append(
            closeness(
                exact.tensors[number].name,
                pair,
                labels if fits else None,
                calibrated=not len(split.others),
            )
        )
    return tuple(found)


def _with_cycles(report: QuantisationReport, graph: Graph, config: str) -> QuantisationReport:
    """Return a report with the predicted cycles of each layer."""
    from matloom.runtime import compile

    program = compile(graph, config, check="none")
    cycles = {layer.name: layer.predicted_cycles for layer in program.layers}
    layers = tuple(
        replace(layer, predicted_cycles=cycles.get(layer.name)) for layer in report.layers
    )
    return replace(report, layers=layers, config=config, cycles=program.predicted_cycles)
