"""Quantises a network to any precision, searches for mixtures, and measures the results."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from matloom.ir.graph import Array, Graph
from matloom.ir.operators import OPERATORS
from matloom.quantiser.balance import decide_equalise
from matloom.quantiser.build import BuildStep, QuantisationPlan, build
from matloom.quantiser.calibrate import Calibration, calibrate, observe, plan_network
from matloom.quantiser.compress import Compression, CompressionGoal, CompressionTrials, compress
from matloom.quantiser.journal import Journal
from matloom.quantiser.judge import Judge, search_identity
from matloom.quantiser.levels import Level, mixtures
from matloom.quantiser.losses import Losses
from matloom.quantiser.measure import Closeness, closeness, outputs_of_both, sqnr_db
from matloom.quantiser.options import Options
from matloom.quantiser.precisions import NARROW_MODE
from matloom.quantiser.report import LayerQuality
from matloom.quantiser.rewrite_layers import compress_network
from matloom.quantiser.samples import SampleSplit
from matloom.quantiser.scales import LEVELS
from matloom.quantiser.search import LEVEL_POINTS, REWRITTEN, Goal, Search, search
from matloom.quantiser.trials import MixedPoint, Trials
from matloom.terminal.progress import set_activity


class Quantiser:
    """Quantises a network to any precision on its samples, and measures it.

    Parameters
    ----------
    exact:
        The float network, as returned by `prepare`.
    labels:
        Class of each sample, in the order in which the samples were given, or None.
    options:
        Options of the quantisation; in `Quantiser.options`, `equalise` is True or False, not None.
    config:
        Configuration for which layers are rewritten.
    """

    def __init__(
        self, exact: Graph, split: SampleSplit, labels: Array | None, options: Options, config: str
    ) -> None:
        self._exact, self._split, self._labels = exact, split, labels
        goal = None if options.compress is None else CompressionGoal.parse(options.compress)
        options = decide_equalise(exact, split.calibration, options)
        self.options, self._config = options, config
        self.compression = None if goal is None else self._compression(goal)
        changes = self.compression.chosen.changes if self.compression else ()
        graph = compress_network(exact, changes, split.calibration, options.seed)
        set_activity("observing the float network")
        self._calibration = calibrate(graph, split.calibration, options)

    def _compression(self, goal: CompressionGoal) -> Compression:
        """Search for layers to rewrite with fewer cycles, so that the network reaches a goal."""
        split, options, graph = self._split.for_trials(), self.options, self._exact
        trials = CompressionTrials(graph, split, options, self._judge, self._journal(graph))
        return compress(trials, goal, self._config)

    def search(self, goal: Goal) -> Search:
        """Search for a mixture of 8-bit and 4-bit weights that reaches a goal."""
        split, options, judge = self._split.for_trials(), self.options, self._judge
        graph, calibration = self._calibration.graph, self._calibration
        if split is not self._split:
            calibration = observe(graph, split.calibration)
        trials = Trials(calibration, split, options, judge, self._journal(graph))
        return search(trials, judge, graph, goal, self._config)

    @cached_property
    def _judge(self) -> Judge:
        """Judge that measures the networks of a search."""
        split = self._split.for_trials()
        return Judge(self._exact, split, self._config, self._labels_of(split.tried))

    def _journal(self, graph: Graph) -> Journal:
        """Return the journal of searches on a graph: the original, or one with rewritten layers."""
        split, options = self._split.for_trials(), self.options
        labels = self._labels_of(split.tried)
        return Journal(
            options.journal, search_identity(graph, split, options, self._config, labels)
        )

    def rewrite(self, search: Search) -> "tuple[Quantiser, Search]":
        """Return a quantiser with rewritten layers and its search, if the network becomes faster.

        Otherwise, return this quantiser and `search`. Layers are rewritten only for the last level,
        and only if `compress` was not chosen. They may cause half of the loss that the level
        allows, and 4-bit weights the other half.
        """
        goal = search.target
        if goal.level != REWRITTEN or self.options.compress is not None:
            return self, search
        half = replace(goal, value=goal.value / 2)
        options = replace(self.options, compress=f"points={half.value:g}")
        other = Quantiser(self._exact, self._split, self._labels, options, self._config)
        if other.compression is None or not other.compression.chosen.changes:
            return self, search
        faster = other.search(half)
        gains = faster.chosen.cycles < search.chosen.cycles
        return (other, faster) if gains else (self, search)

    def quantise(
        self, precision: str | Mapping[str, str]
    ) -> tuple[Graph, tuple[LayerQuality, ...]]:
        """Return the quantised network, and the quality of each float output in it."""
        graph = self._calibration.graph
        plan = plan_network(self._calibration, precision, self.options)
        losses = Losses(graph, self._split.calibration) if self.options.losses else None
        layers: list[LayerQuality] = []

        def observe(step: BuildStep) -> None:
            """Record the quality of one operator's outputs."""
            set_activity(f"operator {step.at + 1} of {len(graph.nodes)}, {step.node.op}")
            lost = None if losses is None else losses.after(step)
            if step.exact.dtype == np.float32:
                layers.append(replace(_quality(self._calibration, plan, step), lost=lost))

        return build(graph, plan, self._split.calibration, observe), tuple(layers)

    def outputs(self, quantised: Graph) -> tuple[Closeness, ...]:
        """Return the closeness of a quantised network's outputs, on the samples for measuring."""
        labels = self._labels_of(self._split.measured)
        pairs = outputs_of_both(self._exact, quantised, self._split.test)
        found = []
        for number, pair in zip(self._exact.outputs, pairs, strict=True):
            rows = pair[0].size // max(pair[0].shape[-1], 1)
            fits = labels is not None and rows == len(labels)
            name, known = self._exact.tensors[number].name, not len(self._split.others)
            found.append(closeness(name, pair, labels if fits else None, calibrated=known))
        return tuple(found)

    def levels(self, search: Search) -> Iterator[Level]:
        """Yield the levels below the requested one, after measuring each."""
        for name, point in mixtures(search):
            set_activity(f"level {name}")
            made, _layers = self.quantise(four_bit_layers(point))
            yield Level(
                name=name,
                points=LEVEL_POINTS[name],
                layers=point.layers,
                cycles=point.cycles,
                outputs=self.outputs(made),
            )

    def _labels_of(self, positions: Array) -> npt.NDArray[np.int64] | None:
        """Return the labels of the samples at some positions; None without labels."""
        return None if self._labels is None else self._labels[positions].astype(np.int64)


def four_bit_layers(point: MixedPoint) -> dict[str, str]:
    """Return the precision of each layer with 4-bit weights, by name (`Quantiser.quantise`)."""
    return dict.fromkeys(point.layers, NARROW_MODE)


def _quality(calibration: Calibration, plan: QuantisationPlan, step: BuildStep) -> LayerQuality:
    """Return the quality of an operator's output, compared with the float network."""
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
