"""Choices as data: everything that a search decides about a segment, and its JSON form.

`schedule.replay` makes the same schedule from them at once, without a search.
"""

from dataclasses import dataclass
from typing import Any

from matloom.schedule.params import (
    ORDINARY_START,
    ExternalTensors,
    FirstTiles,
    LastTiles,
    Prologue,
    TileOrder,
    TilingParams,
    WeightsLifetime,
)
from matloom.schedule.plan import ScheduleParams


@dataclass(frozen=True, kw_only=True)
class Choices:
    """All that a search decides about a segment (the stages of one command buffer).

    Members
    -------
    layouts:
        Alternative layouts of tensors, in the order in which they are applied: the name of each,
        and the tensors that have it.
    first:
        Choices of the first call, after tightening.
    later:
        Choices of later calls, which find weights on chip; None if no weights stay. They keep
        the addresses of the first call.
    constants:
        Constants of `schedule.tuning` that differ from their defaults, by name.
    """

    layouts: tuple[tuple[str, frozenset[str]], ...] = ()
    first: ScheduleParams
    later: ScheduleParams | None = None
    constants: tuple[tuple[str, float], ...] = ()


_FLAGS = (
    "avoid_conflicts",
    "in_place",
    "over_inputs",
    "results_first",
    "strips",
    "turns",
    "resident",
    "plain",
)


def to_json(choices: Choices) -> dict[str, Any]:
    """Return choices as a dictionary of JSON types."""
    return {
        "layouts": [[name, sorted(tensors)] for name, tensors in choices.layouts],
        "first": _params_to_json(choices.first),
        "later": None if choices.later is None else _params_to_json(choices.later),
        "constants": dict(choices.constants),
    }


def from_json(data: dict[str, Any]) -> Choices:
    """Return choices from the dictionary that `to_json` makes.

    Raises
    ------
    KeyError, TypeError, ValueError
        The dictionary has another form.
    """
    later = data["later"]
    return Choices(
        layouts=tuple((str(name), frozenset(tensors)) for name, tensors in data["layouts"]),
        first=_params_from_json(data["first"]),
        later=None if later is None else _params_from_json(later),
        constants=tuple(sorted((str(k), float(v)) for k, v in data["constants"].items())),
    )


def _params_to_json(params: ScheduleParams) -> dict[str, Any]:
    """Return the choices for a plan as a dictionary of JSON types."""
    return {
        "spilled": sorted(params.spilled),
        "one_by_one": sorted(params.one_by_one),
        "leaving": sorted(params.leaving),
        "partly": [list(each) for each in params.partly],
        "limits": [_limits_to_json(each) for each in params.limits],
        **{name: getattr(params, name) for name in _FLAGS},
    }


def _params_from_json(data: dict[str, Any]) -> ScheduleParams:
    """Return the choices for a plan from the dictionary that `_params_to_json` makes."""
    flags: dict[str, Any] = {
        name: None if data[name] is None else bool(data[name]) for name in _FLAGS
    }
    return ScheduleParams(
        spilled=frozenset(map(str, data["spilled"])),
        one_by_one=frozenset(map(int, data["one_by_one"])),
        leaving=frozenset(map(int, data["leaving"])),
        partly=tuple((int(stage), int(chunks)) for stage, chunks in data["partly"]),
        limits=tuple(_limits_from_json(each) for each in data["limits"]),
        start=ORDINARY_START,
        **flags,
    )


def _limits_to_json(limits: TilingParams) -> dict[str, Any]:
    """Return a stage's bounds on tiles as a dictionary of JSON types."""
    first = limits.first
    return {
        "weights": limits.weights.name,
        "chunk_bytes": limits.chunk_bytes,
        "tile_bytes": limits.tile_bytes,
        "tiles": limits.tiles,
        "first": first.name
        if isinstance(first, FirstTiles)
        else [first.rows, first.blocks, first.steps],
        "last": limits.last.value,
        "order": limits.order.name,
        "params_apart": limits.params_apart,
        "outside": limits.outside.value,
    }


def _limits_from_json(data: dict[str, Any]) -> TilingParams:
    """Return a stage's bounds on tiles from the dictionary that `_limits_to_json` makes."""
    first = data["first"]
    if isinstance(first, str):
        shape: FirstTiles | Prologue = FirstTiles[first]
    else:
        rows, blocks, steps = map(int, first)
        shape = Prologue(rows=rows, blocks=blocks, steps=steps)
    return TilingParams(
        weights=WeightsLifetime[data["weights"]],
        chunk_bytes=int(data["chunk_bytes"]),
        tile_bytes=int(data["tile_bytes"]),
        tiles=int(data["tiles"]),
        first=shape,
        last=LastTiles(data["last"]),
        order=TileOrder[data["order"]],
        params_apart=bool(data["params_apart"]),
        outside=ExternalTensors(data["outside"]),
    )
