"""Saves cycles by rewriting layers: as two of low rank, or with fewer channels.

Each form of a layer saves some cycles, and loses some of the variance of the layer's outputs. A
price per cycle weighs one against the other, for all layers at once. A bisection finds the highest
price at which the whole network still meets the goal, measured on samples that the layers were not
fitted on.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from matloom.errors import UserError
from matloom.ir.graph import Array, Graph
from matloom.quantiser.calibrate import calibrated, quantised
from matloom.quantiser.compressed import CHANNELS, FormChange, compressed
from matloom.quantiser.layer_changes import layer_changes
from matloom.quantiser.options import Options
from matloom.quantiser.sweep import outputs_of
from matloom.quantiser.trials import watched
from matloom.terminal.progress import note

__all__ = ["Compression", "CompressionGoal", "CompressionPoint", "compress"]

#: Networks that are measured.
_TRIALS = 6


@dataclass(frozen=True, kw_only=True)
class CompressionGoal:
    """Goal of a rewriting: ``points=1`` or ``sqnr=20``.

    Members
    -------
    kind:
        ``"points"``: percent of the results that may change. ``"sqnr"``: least ratio of
        the outputs' variance over the samples to their error, in decibels.
    """

    kind: str
    value: float

    @classmethod
    def parse(cls, text: str) -> "CompressionGoal":
        """Return the goal that a text names; raises UserError for another text."""
        found = re.fullmatch(r"(points|sqnr)=(\d+(?:\.\d+)?)", text)
        if not found:
            raise UserError(
                f"compress must be points=NUMBER or sqnr=NUMBER, not {text!r}",
                hint="points=1 may change one percent of the results, sqnr=20 a tenth of each",
            )
        return cls(kind=found[1], value=float(found[2]))

    def kept(self, point: "CompressionPoint") -> bool:
        """Return whether a network reaches the goal."""
        if self.kind == "sqnr":
            return point.noise <= 10 ** (-self.value / 10)
        # Rounding of the shares must not decide.
        return point.agreement >= 1 - self.value / 100 - 1e-9


@dataclass(frozen=True, kw_only=True)
class CompressionPoint:
    """A rewritten network of floats, on calibration samples that it was not fitted on.

    Members
    -------
    changes:
        Its layers in another form.
    cycles:
        Predicted cycles of a call with 8-bit weights.
    agreement:
        Share of results that are the float network's.
    noise:
        Error of the outputs before SOFTMAX, as a share of their variance over the samples.
    """

    changes: tuple[FormChange, ...]
    cycles: int
    agreement: float
    noise: float


@dataclass(frozen=True, kw_only=True)
class Compression:
    """Networks that were measured, by cycles, and the chosen one."""

    goal: CompressionGoal
    config: str
    trials: tuple[CompressionPoint, ...]
    chosen: CompressionPoint

    def lines(self) -> list[str]:
        """Return the networks, and the layers of the chosen one, as lines."""
        lines = ["layers in another form: cycles, agreement, noise of the outputs, layers"]
        for point in self.trials:
            mark = "*" if point is self.chosen else " "
            lines.append(
                f"{mark} {point.cycles:>8,}  {point.agreement:>7.2%}  {point.noise:>8.3%}  "
                f"{len(point.changes)}"
            )
        lines.append("* chosen; on calibration samples that the layers were not fitted on")
        lines += [
            f"  {each.layer}: {each.form}, {each.rank}; loses {each.error:.2%} of its variance, "
            f"saves {each.cycles:,} cycles alone"
            for each in self.chosen.changes
        ]
        return lines


class _Trials:
    """Measures rewritten networks on the calibration samples."""

    def __init__(
        self, graph: Graph, inputs: Mapping[int, Array], options: Options, config: str
    ) -> None:
        self._graph, self._inputs, self._config = graph, inputs, config
        self._options = replace(
            options, calibration="minmax", adaptive_rounding=False, correct_bias=False
        )
        self._watched = watched(graph)
        self._expected = self._outputs(graph, inputs)

    def point(self, changes: Sequence[FormChange]) -> CompressionPoint:
        """Return the cycles, agreement and noise of a rewritten network."""
        same, noise, made = [], 0.0, self._graph
        for fit, held in self._folds():
            made = compressed(self._graph, changes, self._part(fit), self._options.seed)
            results = self._outputs(made, self._part(held))
            for whole, found in zip(self._expected, results, strict=True):
                exact = whole[held].astype(np.float64)
                same.append((exact.argmax(axis=-1) == found.argmax(axis=-1)).reshape(-1))
                noise += float(np.square(found - exact).sum()) / _variance(whole)
        return CompressionPoint(
            changes=tuple(changes),
            cycles=self._cycles(made),
            agreement=float(np.concatenate(same).mean()),
            noise=noise,
        )

    def _folds(self) -> list[tuple[slice, slice]]:
        """Return the samples to fit on and those to measure on: each half in turns."""
        halves = slice(0, None, 2), slice(1, None, 2)
        alone = len(next(iter(self._inputs.values()))) == 1
        return [(halves[0], halves[0])] if alone else [halves, halves[::-1]]

    def _part(self, chosen: slice) -> dict[int, Array]:
        return {number: array[chosen] for number, array in self._inputs.items()}

    def _outputs(self, graph: Graph, inputs: Mapping[int, Array]) -> Sequence[Array]:
        return outputs_of(replace(graph, outputs=self._watched), inputs)

    def _cycles(self, graph: Graph) -> int:
        """Return predicted cycles of a network, quantised as simply as possible."""
        from matloom.runtime import compile

        sample = {number: array[:1] for number, array in self._inputs.items()}
        calibration = calibrated(graph, sample, self._options)
        made = quantised(calibration, "i8xi8", sample, self._options)
        return compile(made, self._config, check="none").predicted_cycles


def _variance(values: Array) -> float:
    """Return the squares of what differs between samples, summed."""
    return max(float(np.square(values - values.mean(axis=0), dtype=np.float64).sum()), 1e-30)


def compress(
    graph: Graph, inputs: Mapping[int, Array], options: Options, config: str
) -> tuple[Graph, Compression | None]:
    """Return the network with layers in other forms, and the search that chose them, if any.

    Parameters
    ----------
    graph:
        A network that `prepared` returned.
    inputs:
        Calibration samples by input number, (samples, *shape).
    options:
        `compress` is the goal; None leaves the network as it is.
    """
    if options.compress is None:
        return graph, None
    goal = CompressionGoal.parse(options.compress)
    trials = _Trials(graph, inputs, options, config)
    changes = list(layer_changes(graph, inputs, config, options.seed))
    found = [trials.point(())]
    prices = sorted(each.error / each.cycles for each in changes)
    low, high = 0, len(prices)
    while low < high and len(found) <= _TRIALS:
        middle = (low + high + 1) // 2
        chosen = _at_price(changes, prices[middle - 1])
        note(f"{len(chosen)} layers in another form")
        found.append(trials.point(chosen))
        if goal.kept(found[-1]):
            low = middle
        else:
            high = middle - 1
    fitting = [found[0], *filter(goal.kept, found[1:])]
    search = Compression(
        goal=goal,
        config=config,
        trials=tuple(sorted(found, key=lambda point: point.cycles)),
        chosen=min(fitting, key=lambda point: point.cycles),
    )
    return compressed(graph, search.chosen.changes, inputs, options.seed), search


def _at_price(changes: Sequence[FormChange], price: float) -> tuple[FormChange, ...]:
    """Return the best change of each layer, by its error less the price of the cycles saved."""
    best: dict[tuple[int, bool], FormChange] = {}
    for change in changes:
        key = change.number, change.form == CHANNELS
        worth = change.error - price * change.cycles
        if worth <= 0 and (key not in best or worth < best[key].error - price * best[key].cycles):
            best[key] = change
    return tuple(best.values())
