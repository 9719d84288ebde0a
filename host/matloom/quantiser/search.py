"""Searches for the layers that get 4-bit weights, by measured errors and predicted cycles."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from matloom.arch.config import load_config
from matloom.errors import UserError
from matloom.ir.graph import Graph
from matloom.quantiser.judge import Judge, is_unbeaten, loses_at_most
from matloom.quantiser.precisions import NARROW, NARROW_MODE
from matloom.quantiser.trials import MixedPoint, Trials
from matloom.terminal.progress import set_activity

#: Maximum number of samples for calibration, and for measuring, when single layers are tried.
_TRIAL_SAMPLES = 32
#: Maximum number of mixtures to measure.
_MOST_POINTS = 12
#: Percentage of results that each level may be expected to lose.
LEVEL_POINTS = {"O1": 0.0, "O2": 0.5, "O3": 1.0}
#: The level with only 8-bit weights.
EXACT = "O1"
#: The level that also rewrites layers.
REWRITTEN = "O3"


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Goal of a search, such as ``points=0.5``, ``cycles=60000``, or a level of `LEVEL_POINTS`.

    Members
    -------
    kind:
        ``"points"``: `value` is the expected loss of accuracy that is allowed, in percentage points
        compared with 8-bit weights; the network with the fewest cycles is chosen. ``"cycles"``:
        `value` is the maximum of predicted cycles of a call; the network with the least noise is
        chosen.
    level:
        The requested level; None if there is none.
    """

    kind: str
    value: float
    level: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Goal":
        """Parse ``points=NUMBER``, ``cycles=NUMBER`` or a level; raise UserError otherwise."""
        if text in LEVEL_POINTS:
            return cls(kind="points", value=LEVEL_POINTS[text], level=text)
        match = re.fullmatch(r"(points|cycles)=(\d+(?:\.\d+)?)", text)
        if not match:
            raise UserError(
                "a target must be points=NUMBER, cycles=NUMBER or one of "
                f"{', '.join(LEVEL_POINTS)}, not {text!r}",
                hint="points=0.5 may lose half a percent of the results",
            )
        return cls(kind=match[1], value=float(match[2]))


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Effect of 4-bit weights in one layer alone.

    Members
    -------
    noise:
        Increase of the noise of the outputs (`Judgement.noise`), or 0 if it decreases.
    cycles:
        Predicted cycles saved; negative if the network becomes slower.
    """

    name: str
    noise: float
    cycles: int


@dataclass(frozen=True, kw_only=True)
class Search:
    """Result of a search.

    `sensitivities` are in the order of noise per cycle saved, `points` in the order of cycles;
    `chosen` is one of the points.
    """

    target: Goal
    config: str
    sensitivities: tuple[Sensitivity, ...]
    points: tuple[MixedPoint, ...]
    chosen: MixedPoint


def search(trials: Trials, judge: Judge, graph: Graph, goal: Goal, config: str) -> Search:
    """Search for the layers that get 4-bit weights, so that the network reaches a goal.

    Each layer is tried alone first. Mixtures then take the first layers in the order of noise per
    cycle saved, without layers that save none; at most `_MOST_POINTS` mixtures are measured.

    Raises
    ------
    UserError
        No mixture reaches the goal, or it needs classes and the outputs have none.
    """
    if goal.kind == "points":
        judge.require_classes("search for cycles=NUMBER instead")
    sensitivities = tuple(sorted(_sensitivities(graph, trials), key=_noise_per_cycle))
    useful = [each.name for each in sensitivities if each.cycles > 0]
    points = []
    for count in _layer_counts(len(useful)):
        set_activity(f"mixture of {count} of {len(useful)} layers")
        points.append(trials.point(tuple(useful[:count])))
    points = [replace(each, best=is_unbeaten(each, points)) for each in points]
    return Search(
        target=goal,
        config=config,
        sensitivities=sensitivities,
        points=tuple(sorted(points, key=lambda point: point.cycles)),
        chosen=choose_point(points, goal),
    )


def require_mode(config: str) -> None:
    """Raise UserError if a configuration has no mode for 4-bit weights."""
    if NARROW_MODE not in load_config(config).mac_modes:
        raise UserError(
            f"a search needs an engine with the mode {NARROW_MODE}, unlike {config}",
            hint=f"--config {config}+{NARROW_MODE}",
        )


def _sensitivities(graph: Graph, trials: Trials) -> Iterator[Sensitivity]:
    """Yield the sensitivity of each layer that can have 4-bit weights."""
    names = [graph.tensors[node.output].name for node in graph.nodes if node.op in NARROW]
    before = trials.point((), _TRIAL_SAMPLES)
    for place, name in enumerate(names):
        set_activity(f"layer {place + 1} of {len(names)} alone, {name.split(';')[0]}")
        after = trials.point((name,), _TRIAL_SAMPLES)
        saved = before.cycles - after.cycles
        yield Sensitivity(name=name, noise=max(after.noise - before.noise, 0.0), cycles=saved)


def _noise_per_cycle(layer: Sensitivity) -> tuple[float, str]:
    """Return a key to sort by: a layer's noise for each cycle it saves, then its name."""
    return (layer.noise / layer.cycles if layer.cycles > 0 else float("inf")), layer.name


def _layer_counts(layers: int) -> list[int]:
    """Return the numbers of layers with 4-bit weights to try, ascending, from none to all."""
    return sorted({round(share) for share in np.linspace(0, layers, _MOST_POINTS)})


def choose_point(points: Sequence[MixedPoint], target: Goal) -> MixedPoint:
    """Return the best point that reaches a goal (`Goal.kind`); raise UserError if none does.

    Losses are relative to the point with only 8-bit weights, which must be among the points.
    """
    if target.kind == "points":
        whole = next(point for point in points if not point.layers)
        fitting = [point for point in points if loses_at_most(target.value, point, whole)]
        return min(fitting, key=lambda point: point.cycles)
    fitting = [point for point in points if point.cycles <= target.value]
    if not fitting:
        fewest = min(point.cycles for point in points)
        raise UserError(
            f"no mixture takes at most {target.value:,.0f} cycles: the fastest takes {fewest:,}",
            hint=f"choose a larger engine, or cycles={fewest}",
        )
    return min(fitting, key=lambda point: point.noise)
