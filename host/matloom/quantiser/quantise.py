"""Quantises a network: calibrates, builds, measures, writes."""

from collections.abc import Iterator, Mapping
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
from matloom.quantiser.compress import compress
from matloom.quantiser.levels import Level, mixtures
from matloom.quantiser.losses import Losses
from matloom.quantiser.measure import Closeness, closeness, outputs_of_both, sqnr_db
from matloom.quantiser.options import Options
from matloom.quantiser.padding import separate_padding
from matloom.quantiser.precisions import NARROW_MODE, layer_precisions
from matloom.quantiser.prepare import prepared
from matloom.quantiser.report import LayerQuality, QuantisationReport
from matloom.quantiser.samples import SampleSplit, checked_labels, split_samples
from matloom.quantiser.scales import LEVELS
from matloom.quantiser.search import BOOSTS, EXACT, REWRITTEN, Goal, Search, require_mode, search
from matloom.quantiser.trials import MixedPoint, Trials
from matloom.terminal.progress import note

__all__ = ["QuantisedNetwork", "quantise"]

#: Configuration that a search predicts cycles for, unless it is told another one.
_ENGINE = "reference"


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
        ``"points=0.5"``, the fastest that is expected to lose at most so many percent of the
        results against 8-bit weights: correct ones with `labels`, else those of the float network;
        ``"cycles=60000"``, the most accurate of at most so many cycles; or a level, all of which
        are then measured: ``"O1"``, 8-bit weights, ``"O2"``, as ``"points=0.5"``, or ``"O3"``, as
        ``"points=1"``. `config` must have the mode i8xi4.
    choices:
        Members of `Options`.

    Raises
    ------
    UserError
        The network is quantised already or has no layers, the samples do not fit it or are not
        finite, or an option is wrong.
    """
    options, engine = _options(choices), config or _ENGINE
    goal = _goal(target, engine)
    exact = prepared(model if isinstance(model, Graph) else frontend.load_floats(model))
    split = split_samples(exact, data, samples, options.seed, searching=goal is not None)
    work = _Quantisation(exact, split, checked_labels(labels, split, exact), options, engine)
    found, levels = None, list[Level]()
    if goal is not None:
        found = work.search(goal)
        levels = list(work.levels(found))
        work, found = work.rewritten(found)
        precision = _narrowed(found.chosen)
    made, layers = work.made(precision)
    content = _file(made)
    note("measuring")
    report = QuantisationReport(
        network=exact.name,
        options=options,
        calibrated=tuple(split.chosen.tolist()),
        tried=tuple(split.tried.tolist()),
        tested=tuple(split.measured.tolist()),
        layers=layers,
        outputs=work.outputs(made),
        bytes_before=len(_file(exact)),
        bytes_after=len(content),
        search=found,
        compression=work.compression,
        levels=tuple(levels),
    )
    if config is not None:
        report = _with_cycles(report, made, config)
    return QuantisedNetwork(graph=made, content=content, report=report)


class _Quantisation:
    """A network with its samples: made in any precision, and measured.

    Parameters
    ----------
    labels:
        Class of each sample given, or None.
    config:
        Configuration that layers are rewritten for.
    """

    def __init__(
        self, exact: Graph, split: SampleSplit, labels: Array | None, options: Options, config: str
    ) -> None:
        self._exact, self._split, self._labels = exact, split, labels
        self._options, self._config = options, config
        graph, self.compression = compress(exact, split.calibration, options, config)
        note("observing the float network")
        self._calibration = calibrated(graph, split.calibration, options)

    def search(self, goal: Goal) -> Search:
        """Return a search for a mixture of 8-bit and 4-bit weights."""
        split, config = self._split, self._config
        labels = self._labelled(split.tried if len(split.tried) else split.chosen)
        trials = Trials(self._calibration, split, self._options, config, labels)
        return search(trials, self._calibration.graph, goal, config, self._options.journal)

    def rewritten(self, found: Search) -> "tuple[_Quantisation, Search]":
        """Return this network and its search, or a faster one with layers in other forms.

        Only the last level looks for the latter: half of what may be lost is for the forms, the
        other half for 4-bit weights.
        """
        goal = found.target
        if goal.level != REWRITTEN or self._options.compress is not None:
            return self, found
        half = replace(goal, value=goal.value / 2)
        options = replace(self._options, compress=f"points={half.value:g}")
        other = _Quantisation(self._exact, self._split, self._labels, options, self._config)
        if other.compression is None or not other.compression.chosen.changes:
            return self, found
        faster = other.search(half)
        gains = faster.chosen.cycles < found.chosen.cycles
        return (other, faster) if gains else (self, found)

    def made(self, precision: str | Mapping[str, str]) -> tuple[Graph, tuple[LayerQuality, ...]]:
        """Return the quantised network, and how close its layers are."""
        graph = self._calibration.graph
        kinds, bits = layer_precisions(graph, precision)
        plan = planned(self._calibration, kinds, bits, self._options)
        losses = Losses(graph, self._split.calibration) if self._options.losses else None
        layers: list[LayerQuality] = []

        def observe(step: BuildStep) -> None:
            note(f"operator {step.at + 1} of {len(graph.nodes)}, {step.node.op}")
            lost = None if losses is None else losses.after(step)
            if step.exact.dtype == np.float32:
                layers.append(replace(_quality(self._calibration, plan, step), lost=lost))

        return build(graph, plan, self._split.calibration, observe), tuple(layers)

    def outputs(self, made: Graph) -> tuple[Closeness, ...]:
        """Return how close the outputs of a quantised network are, on the samples to measure on."""
        labels = self._labelled(self._split.measured)
        pairs = outputs_of_both(self._exact, made, self._split.test)
        found = []
        for number, pair in zip(self._exact.outputs, pairs, strict=True):
            rows = pair[0].size // max(pair[0].shape[-1], 1)
            fits = labels is not None and rows == len(labels)
            name, known = self._exact.tensors[number].name, not len(self._split.others)
            found.append(closeness(name, pair, labels if fits else None, calibrated=known))
        return tuple(found)

    def levels(self, found: Search) -> Iterator[Level]:
        """Yield the levels up to the one that was asked for, measured."""
        for name, point in mixtures(found):
            note(f"level {name}")
            made, _layers = self.made(_narrowed(point))
            yield Level(
                name=name,
                points=BOOSTS[name],
                layers=point.layers,
                cycles=point.cycles,
                outputs=self.outputs(made),
            )

    def _labelled(self, places: Array) -> npt.NDArray[np.int64] | None:
        return None if self._labels is None else self._labels[places].astype(np.int64)


def _narrowed(point: MixedPoint) -> dict[str, str]:
    """Return the precisions of a mixture by layer."""
    return dict.fromkeys(point.layers, NARROW_MODE)


def _file(graph: Graph) -> bytes:
    """Return a graph as a TensorFlow Lite file."""
    return frontend.write(separate_padding(graph))[1]


def _options(choices: Mapping[str, Any]) -> Options:
    known = Options.__dataclass_fields__
    for name in choices:
        if name not in known:
            raise UserError(f"an option must be one of {', '.join(known)}, not {name!r}")
    return Options(**choices)


def _goal(target: str | None, config: str) -> Goal | None:
    """Return the goal of a search; None if 8-bit weights are all that is wanted."""
    goal = None if target is None else Goal.parse(target)
    if goal is None or goal.level == EXACT:
        return None
    require_mode(config)
    return goal


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


def _with_cycles(report: QuantisationReport, graph: Graph, config: str) -> QuantisationReport:
    """Return a report with the predicted cycles of each layer."""
    from matloom.runtime import compile

    program = compile(graph, config, check="none")
    cycles = {layer.name: layer.predicted_cycles for layer in program.layers}
    layers = tuple(
        replace(layer, predicted_cycles=cycles.get(layer.name)) for layer in report.layers
    )
    return replace(report, layers=layers, config=config, cycles=program.predicted_cycles)
