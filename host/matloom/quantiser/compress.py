"""Saves cycles by rewriting layers: as two of low rank, or with fewer channels.

Each form of a layer saves some cycles, and loses some of the variance of the layer's outputs. A
price per cycle trades one for the other, for all layers at once. A bisection of few steps searches
for a high price at which the quantised network still meets the goal, on samples that it was not
fitted to.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from matloom.errors import UserError
from matloom.ir.graph import Graph
from matloom.quantiser.calibrate import calibrate, quantise_calibrated
from matloom.quantiser.journal import Journal
from matloom.quantiser.judge import Judge, Judgement, loses_at_most
from matloom.quantiser.layer_changes import layer_changes
from matloom.quantiser.options import Options
from matloom.quantiser.rewrite_layers import CHANNELS, FormChange, compress_network
from matloom.quantiser.samples import SampleSplit
from matloom.terminal.progress import set_activity

#: Maximum number of rewritten networks to measure.
_MEASURED_NETWORKS = 6


@dataclass(frozen=True, kw_only=True)
class CompressionGoal:
    """Goal of rewriting layers, such as ``points=1`` or ``sqnr=20``.

    Members
    -------
    kind:
        ``"points"``: `value` is the expected loss of accuracy that is allowed, in percentage
        points, compared with the original layers with 8-bit weights. ``"sqnr"``: `value` is the
        minimum ratio of the outputs' variance over the samples to their error, in decibels.
    """

    kind: str
    value: float

    @classmethod
    def parse(cls, text: str) -> "CompressionGoal":
        """Parse ``points=NUMBER`` or ``sqnr=NUMBER``; raise UserError for other texts."""
        match = re.fullmatch(r"(points|sqnr)=(\d+(?:\.\d+)?)", text)
        if not match:
            raise UserError(
                f"compress must be points=NUMBER or sqnr=NUMBER, not {text!r}",
                hint="points=1 may lose one percent of the results, sqnr=20 a tenth of each",
            )
        return cls(kind=match[1], value=float(match[2]))

    def is_reached_by(self, point: Judgement, original: Judgement) -> bool:
        """Return whether a network reaches the goal; `original` judges the original layers."""
        if self.kind == "sqnr":
            return point.varying_noise <= 10 ** (-self.value / 10)
        return loses_at_most(self.value, point, original)


@dataclass(frozen=True, kw_only=True)
class CompressionPoint(Judgement):
    """Measurements of a network with 8-bit weights, and the changes that made its layers faster."""

    changes: tuple[FormChange, ...]


@dataclass(frozen=True, kw_only=True)
class Compression:
    """Result of `compress`: the measured networks by ascending cycles, and the chosen one."""

    goal: CompressionGoal
    config: str
    trials: tuple[CompressionPoint, ...]
    chosen: CompressionPoint

    def lines(self) -> list[str]:
        """Return lines on the networks, and on the changed layers of the chosen one."""
        lines = ["layers in other forms: cycles, SQNR of the outputs, agreement, expected, layers"]
        for point in self.trials:
            mark = "*" if point == self.chosen else " "
            lines.append(f"{mark} {point.text()}  {len(point.changes)}")
        lines.append("* chosen")
        lines += [
            f"  {each.layer}: {each.form}, {each.rank}; loses {each.error:.2%} of its variance, "
            f"saves {each.cycles:,} cycles alone"
            for each in self.chosen.changes
        ]
        return lines


class CompressionTrials:
    """Rewrites a network in several ways, and measures each.

    Parameters
    ----------
    graph:
        A network that `prepare` returned.
    split:
        Samples, of which `calibration` are those to which layers are fitted.
    judge:
        Measures the networks.
    journal:
        Results of earlier trials.
    """

    def __init__(
        self, graph: Graph, split: SampleSplit, options: Options, judge: Judge, journal: Journal
    ) -> None:
        self._graph, self._inputs, self._options = graph, split.calibration, options
        self._judge, self._journal = judge, journal

    def require_classes(self) -> None:
        """Raise `UserError` if no output has two elements or more, so that there are no classes."""
        self._judge.require_classes("compress with sqnr=NUMBER instead")

    def changes(self, config: str) -> list[FormChange]:
        """Return the changes of single layers that save cycles, as `layer_changes` yields them."""
        return list(
            layer_changes(self._graph, self._inputs, config, self._options.seed, self._journal)
        )

    def point(self, changes: Sequence[FormChange]) -> CompressionPoint:
        """Return the judgement of the network with these changes and 8-bit weights."""
        name = repr([(each.number, each.form, each.rank) for each in changes])
        found = self._journal.get_or_run(name, lambda: asdict(self._judge_changes(changes)))
        return CompressionPoint(**found, changes=tuple(changes))

    def _judge_changes(self, changes: Sequence[FormChange]) -> Judgement:
        """Compress, quantise and judge the network with a set of changed layers."""
        set_activity(f"{len(changes)} layers in another form")
        quantised = compress_network(self._graph, changes, self._inputs, self._options.seed)
        calibration = calibrate(quantised, self._inputs, self._options)
        return self._judge.judge(
            quantise_calibrated(calibration, "i8xi8", self._inputs, self._options)
        )


def compress(trials: CompressionTrials, goal: CompressionGoal, config: str) -> Compression:
    """Search for layers to rewrite, so that the network reaches a goal with few cycles.

    The fastest measured network that reaches the goal is chosen, or else the original.

    Parameters
    ----------
    config:
        Configuration to predict cycles for; ranks are multiples of its columns.

    Raises
    ------
    UserError
        The goal needs classes, and the outputs have none.
    """
    if goal.kind == "points":
        trials.require_classes()
    changes = trials.changes(config)
    prices = sorted(each.error / each.cycles for each in changes)
    steps = list(dict.fromkeys(_best_at_price(changes, price) for price in prices))
    found = [trials.point(())]
    low, high = 0, len(steps)
    while low < high and len(found) <= _MEASURED_NETWORKS:
        middle = (low + high + 1) // 2
        found.append(trials.point(steps[middle - 1]))
        if goal.is_reached_by(found[-1], found[0]):
            low = middle
        else:
            high = middle - 1
    fitting = [found[0], *(each for each in found[1:] if goal.is_reached_by(each, found[0]))]
    return Compression(
        goal=goal,
        config=config,
        trials=tuple(sorted(found, key=lambda point: point.cycles)),
        chosen=min(fitting, key=lambda point: point.cycles),
    )


def _best_at_price(changes: Sequence[FormChange], price: float) -> tuple[FormChange, ...]:
    """Return the changes that are worth their error at a price per cycle saved.

    For each layer, these are at most one split and one removal of channels, each the best.
    """
    best: dict[tuple[int, bool], FormChange] = {}
    for change in changes:
        key = change.number, change.form == CHANNELS
        worth = change.error - price * change.cycles
        if worth <= 0 and (key not in best or worth < best[key].error - price * best[key].cycles):
            best[key] = change
    return tuple(best.values())
