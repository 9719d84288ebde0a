"""Searches which layers take weights of four bits: measured errors against predicted cycles."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from matloom.arch.config import load_config
from matloom.errors import UserError
from matloom.ir.graph import Array, Graph, Op
from matloom.quantiser.build import BuildStep, build
from matloom.quantiser.calibrate import Calibration, planned
from matloom.quantiser.options import Options
from matloom.quantiser.precisions import NARROW, layer_precisions
from matloom.terminal.progress import note

__all__ = ["Goal", "MixedPoint", "Search", "Sensitivity", "chosen_point", "search"]

#: Samples on which each layer alone is tried.
_TRIAL_SAMPLES = 32
#: Mixtures that are measured: the layers are narrowed in as many steps.
_MOST_POINTS = 12
_MODE = "i8xi4"


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Goal of a search: ``points=0.5`` or ``cycles=60000``.

    Members
    -------
    kind:
        ``"points"``: agreement with the float network, in percent, that may be lost against
        8-bit weights; the network with the fewest cycles within it is chosen. ``"cycles"``:
        predicted cycles of a call; the network with the least error within them is chosen.
    """

    kind: str
    value: float

    @classmethod
    def parse(cls, text: str) -> "Goal":
        """Return the target that a text names; raises UserError for another text."""
        found = re.fullmatch(r"(points|cycles)=(\d+(?:\.\d+)?)", text)
        if not found:
            raise UserError(
                f"a target must be points=NUMBER or cycles=NUMBER, not {text!r}",
                hint="points=0.5 may lose half a percent of the results",
            )
        return cls(kind=found[1], value=float(found[2]))


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """One layer alone with 4-bit weights.

    Members
    -------
    noise:
        Noise that it adds to the outputs before SOFTMAX, as a share of their power.
    cycles:
        Predicted cycles that it saves.
    """

    name: str
    noise: float
    cycles: int


@dataclass(frozen=True, kw_only=True)
class MixedPoint:
    """A network in which some layers have 4-bit weights, measured on the calibration samples.

    Members
    -------
    layers:
        Names of those layers.
    cycles:
        Predicted cycles of a call.
    noise:
        Noise of the outputs before SOFTMAX, as a share of their power.
    agreement:
        Share of rows with the float network's largest element.
    best:
        Whether no other point is better in both cycles and noise.
    """

    layers: tuple[str, ...]
    cycles: int
    noise: float
    agreement: float
    best: bool = True

    @property
    def sqnr_db(self) -> float:
        """Signal-to-noise ratio in decibels."""
        return float(-10 * np.log10(max(self.noise, 1e-30)))


@dataclass(frozen=True, kw_only=True)
class Search:
    """Result of a search: layers by noise per saved cycle, points by cycles, the chosen point."""

    target: Goal
    config: str
    sensitivities: tuple[Sensitivity, ...]
    points: tuple[MixedPoint, ...]
    chosen: MixedPoint


class _Trials:
    """Builds mixtures of one network on its calibration samples."""

    def __init__(
        self, calibration: Calibration, inputs: Mapping[int, Array], options: Options, config: str
    ) -> None:
        self._calibration, self._options, self._config = calibration, options, config
        self._inputs = dict(inputs)
        self._watched = _watched(calibration.graph)

    def point(self, layers: tuple[str, ...], samples: int | None = None) -> MixedPoint:
        """Return the network in which these layers have 4-bit weights."""
        noise, same, rows = 0.0, 0, 0

        def observe(step: BuildStep) -> None:
            nonlocal noise, same, rows
            if step.number in self._watched:
                exact, rounded = step.exact.astype(np.float64), step.rounded
                power = float(np.square(exact).sum())
                noise += float(np.square(rounded - exact).sum()) / max(power, 1e-30)
                equal = exact.argmax(axis=-1) == rounded.argmax(axis=-1)
                same, rows = same + int(equal.sum()), rows + equal.size

        table = dict.fromkeys(layers, _MODE)
        kinds, bits = layer_precisions(self._calibration.graph, table)
        plan = planned(self._calibration, kinds, bits, self._options)
        given = {number: array[:samples] for number, array in self._inputs.items()}
        made = build(self._calibration.graph, plan, given, observe)
        cycles = sum(self.cycles(made).values())
        return MixedPoint(layers=layers, cycles=cycles, noise=noise, agreement=same / max(rows, 1))

    def cycles(self, graph: Graph) -> dict[str, int]:
        """Return predicted cycles by the name of the layer; "" has those of everything else."""
        from matloom.runtime import compile

        program = compile(graph, self._config, check="none")
        found = {layer.name: layer.predicted_cycles for layer in program.layers}
        return {**found, "": program.predicted_cycles - sum(found.values())}


def _watched(graph: Graph) -> set[int]:
    """Return the outputs, and instead of those of SOFTMAX and LOGISTIC what these read."""
    found = set()
    for number in graph.outputs:
        node = graph.nodes[graph.producers[number]] if number in graph.producers else None
        squashed = node is not None and node.op in (Op.SOFTMAX, Op.LOGISTIC)
        found.add(node.inputs[0] if squashed and node is not None else number)
    return found


def search(
    calibration: Calibration,
    inputs: Mapping[int, Array],
    options: Options,
    target: Goal,
    config: str,
) -> Search:
    """Return the layers that take 4-bit weights for a target.

    Each layer alone is tried first. Then layers are narrowed one after another, in the order of
    the noise that each adds for a cycle that it saves, and each mixture is measured.

    Raises
    ------
    UserError
        The configuration has no mode i8xi4, or no layer could have it.
    """
    if _MODE not in load_config(config).mac_modes:
        raise UserError(
            f"a search needs an engine with the mode {_MODE}, unlike {config}",
            hint=f"--config {config}+{_MODE}",
        )
    trials = _Trials(calibration, inputs, options, config)
    sensitivities = tuple(sorted(_sensitivities(calibration.graph, trials), key=_price))
    useful = [each.name for each in sensitivities if each.cycles > 0]
    points = []
    for count in _counts(len(useful)):
        note(f"mixture of {count} of {len(useful)} layers")
        points.append(trials.point(tuple(useful[:count])))
    points = [_ranked(point, points) for point in points]
    return Search(
        target=target,
        config=config,
        sensitivities=sensitivities,
        points=tuple(sorted(points, key=lambda point: point.cycles)),
        chosen=chosen_point(points, target),
    )


def _sensitivities(graph: Graph, trials: _Trials) -> Iterator[Sensitivity]:
    """Yield the sensitivity of each layer that can have 4-bit weights."""
    names = [graph.tensors[node.output].name for node in graph.nodes if node.op in NARROW]
    before = trials.point((), _TRIAL_SAMPLES)
    for place, name in enumerate(names):
        note(f"layer {place + 1} of {len(names)} alone, {name.split(';')[0]}")
        after = trials.point((name,), _TRIAL_SAMPLES)
        saved = before.cycles - after.cycles
        yield Sensitivity(name=name, noise=max(after.noise - before.noise, 0.0), cycles=saved)


def _price(layer: Sensitivity) -> tuple[float, str]:
    return (layer.noise / layer.cycles if layer.cycles > 0 else float("inf")), layer.name


def _counts(layers: int) -> list[int]:
    """Return the numbers of layers to narrow, from none to all."""
    return sorted({round(share) for share in np.linspace(0, layers, _MOST_POINTS)})


def _ranked(point: MixedPoint, points: list[MixedPoint]) -> MixedPoint:
    better = any(
        other.cycles <= point.cycles and other.noise < point.noise
        for other in points
        if other is not point
    )
    return MixedPoint(
        layers=point.layers,
        cycles=point.cycles,
        noise=point.noise,
        agreement=point.agreement,
        best=not better,
    )


def chosen_point(points: list[MixedPoint], target: Goal) -> MixedPoint:
    """Return the point that reaches a target; raises UserError if none does."""
    if target.kind == "points":
        least = points[0].agreement - target.value / 100
        # Rounding of the shares must not decide.
        return min((p for p in points if p.agreement >= least - 1e-9), key=lambda p: p.cycles)
    fitting = [point for point in points if point.cycles <= target.value]
    if not fitting:
        fewest = min(point.cycles for point in points)
        raise UserError(
            f"no mixture takes at most {target.value:,.0f} cycles: the fastest takes {fewest:,}",
            hint=f"take a larger engine, or cycles={fewest}",
        )
    return min(fitting, key=lambda point: point.noise)
