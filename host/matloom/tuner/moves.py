"""Draws random moves of a search: single changes of the choices of a segment."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matloom.schedule import tuning
from matloom.schedule.choices.layouts import LAYOUTS
from matloom.schedule.choices.record import Choices
from matloom.schedule.choices.residency import chunk_counts, chunks_in_share, resident_chunks
from matloom.schedule.params import (
    UNBOUNDED,
    FirstTiles,
    LastTiles,
    TileOrder,
    TilingParams,
    WeightsLifetime,
)
from matloom.schedule.plan import ScheduleParams
from matloom.schedule.segment import Segment
from matloom.select.stage import Stage

#: Stages that keep no weights on chip, and pairs of a stage and the number of chunks that it keeps,
#: as `ScheduleParams.leaving` and `partly`.
_Residency = tuple[frozenset[int], tuple[tuple[int, int], ...]]

#: Values to try.
_TILES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
_CHUNKS = (*(1 << bits for bits in range(9, 17)), 24 << 10, UNBOUNDED)
_TILE_BYTES = (*(1 << bits for bits in range(10, 18)), UNBOUNDED)
_FACTORS = (0.5, 0.75, 1.5, 2.0)
#: Shares of the scratchpad to fill with resident weights.
SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

#: Probabilities, in this order: a move of a stage is made for all stages of the same shape; it
#: leaves the first call unchanged; a move of a layout removes it from all tensors; it gives it to a
#: single tensor; a move of residency keeps no weights; it changes the chunks of a single stage.
_ALIKE, _LATER_ALONE, _TO_NONE, _TO_ONE, _NONE_STAY, _ONE_STAYS = 0.3, 0.5, 0.3, 0.5, 0.1, 0.7

#: Constants of `schedule.tuning` that a move may change.
_CONSTANTS = (
    *("BLOCK_ENTRIES", "TALLER_TILES", "RESULT_CYCLES", "RESULT_LATENCY", "NARROWER_BYTES"),
    *("STORED_BEATS", "STORED_TILES", "REST_SLOTS", "INPUT_CONFLICT"),
)


@dataclass(frozen=True, kw_only=True)
class Move:
    """Change of one choice for a schedule.

    Members
    -------
    what:
        Name of the choice: if there is a `stage`, a field of `TilingParams`; otherwise, a field of
        `ScheduleParams`, ``"layouts"``, ``"residency"``, or a constant of `schedule.tuning`.
    value:
        The new value; for ``"spilled"``, the tensor to move off the chip, or back.
    stage:
        Index of the stage; None for a choice that is not of a stage.
    later_alone:
        Whether the first call stays as it is, if later calls have choices of their own.
    """

    what: str
    value: Any
    stage: int | None = None
    later_alone: bool = False


def apply_move(choices: Choices, move: Move) -> Choices:
    """Return a copy of the choices with a change made."""
    if move.what == "layouts":
        return replace(choices, layouts=move.value)
    if move.what in _CONSTANTS:
        constants = {**dict(choices.constants), move.what: move.value}
        return replace(choices, constants=tuple(sorted(constants.items())))
    if move.what == "residency":
        return _with_residency(choices, move.value)
    later = None if choices.later is None else _change_params(choices.later, move)
    first = choices.first if move.later_alone and later else _change_params(choices.first, move)
    return replace(choices, first=first, later=later)


def _with_residency(choices: Choices, residency: "_Residency | None") -> Choices:
    """Return choices that keep some weights on chip between calls: those in `residency`.

    With None, no weights are kept, so first and later calls use the same schedule.
    """
    if residency is None:
        first = replace(choices.first, resident=False, leaving=frozenset(), partly=())
        return replace(choices, first=first, later=None)
    leaving, partly = residency
    first = replace(choices.first, resident=True, leaving=leaving, partly=partly)
    later = choices.later or first
    later = replace(later, resident=False, leaving=leaving, partly=partly)
    return replace(choices, first=first, later=later)


def _change_params(params: ScheduleParams, move: Move) -> ScheduleParams:
    """Return choices for a plan with the change of a move made."""
    if move.stage is not None:
        limits = list(params.limits)
        limits[move.stage] = replace(limits[move.stage], **{move.what: move.value})
        return replace(params, limits=tuple(limits))
    if move.what == "spilled":
        return replace(params, spilled=params.spilled ^ {move.value})
    return replace(params, **{move.what: move.value})


def draw_moves(
    segment: Segment,
    choices: Choices,
    weights: Sequence[float],
    rng: random.Random,
) -> list[Move]:
    """Return one random change, as moves to make together; empty if it would change nothing.

    Parameters
    ----------
    weights:
        Relative frequency with which each stage is drawn.
    """
    (kind,) = rng.choices(tuple(_KINDS), tuple(_KINDS.values()))
    if kind in _MOVES_BY_KIND:
        move = _MOVES_BY_KIND[kind](segment, choices, rng)
        return [] if move is None else [move]
    (at,) = rng.choices(range(len(weights)), weights)
    before = choices.first.limits[at]
    values = _candidate_values(segment.stages[at], before).get(kind, ())
    values = [each for each in values if each != getattr(before, kind)]
    if not values:
        return []
    alone = choices.later is not None and kind in _OF_LATER and rng.random() < _LATER_ALONE
    move = Move(what=kind, value=rng.choice(values), stage=at, later_alone=alone)
    return for_equal_stages(segment, move) if rng.random() < _ALIKE else [move]


def _candidate_values(stage: Stage, current: TilingParams) -> dict[str, Sequence[Any]]:
    """Return the values to try for each field of a stage's `TilingParams`, by field."""
    values: dict[str, Sequence[Any]] = {
        "tiles": _TILES,
        "tile_bytes": _TILE_BYTES,
        "first": tuple(FirstTiles),
        "last": [
            current.last ^ each for each in (LastTiles.CHUNKS, LastTiles.ROWS, LastTiles.BLOCKS)
        ],
        "order": tuple(TileOrder),
    }
    if stage.loads_weights:
        values |= {"chunk_bytes": _CHUNKS, "weights": tuple(WeightsLifetime)}
    if stage.has_params:
        values["params_apart"] = (False, True)
    return values


def for_equal_stages(segment: Segment, move: Move) -> list[Move]:
    """Return the same move for each stage of equal shape, because networks repeat layers."""
    if move.stage is None:
        return [move]
    shapes = [_stage_shape(stage) for stage in segment.stages]
    same = [at for at, shape in enumerate(shapes) if shape == shapes[move.stage]]
    return [replace(move, stage=at) for at in same]


def _stage_shape(stage: Stage) -> tuple[object, ...]:
    """Return a key that is equal for stages of the same kind, sizes and weights."""
    grid = stage.grid
    sizes = grid.images, grid.rows, grid.width, grid.blocks
    return type(stage), *sizes, stage.weight_bytes, getattr(stage, "steps", 0)


#: Fields that may differ for later calls, because they do not affect how weights are cut.
_OF_LATER = ("tiles", "tile_bytes", "first", "order")


def _global_move(segment: Segment, choices: Choices, rng: random.Random) -> Move:
    """Return a move that inverts a yes-or-no choice that holds for all stages."""
    what = rng.choice(("avoid_conflicts", "in_place", "over_inputs", "results_first"))
    return Move(what=what, value=not getattr(choices.first, what))


def _tensor_move(segment: Segment, choices: Choices, rng: random.Random) -> Move | None:
    """Return a move that puts a tensor in external memory, or back on chip; None if impossible."""
    names = [
        name for name in segment.sizes if name not in segment.on_chip and name not in segment.views
    ]
    return Move(what="spilled", value=rng.choice(names)) if names else None


def _layout_move(segment: Segment, choices: Choices, rng: random.Random) -> Move | None:
    """Return a move that gives tensors an alternative layout; None if none can have it.

    If tensors have the layout already, the move returns one or all of them to the ordinary one.
    """
    layout = rng.choice(LAYOUTS)
    known = dict(choices.layouts)
    if layout.name in known:
        fewer = known[layout.name] - {rng.choice(sorted(known[layout.name]))}
        fewer = frozenset() if rng.random() < _TO_NONE else fewer
        others = tuple(
            (name, fewer if name == layout.name else tensors) for name, tensors in choices.layouts
        )
        return Move(what="layouts", value=tuple(each for each in others if each[1]))
    made = layout.make(segment)
    if made is None:
        return None
    tensors = made.layouts[-1][1]
    if rng.random() < _TO_ONE:
        tensors = frozenset({rng.choice(sorted(tensors))})
    # Layouts are made in the order of the list.
    value = [(name, known[name]) for name in known] + [(layout.name, tensors)]
    order = [each.name for each in LAYOUTS]
    return Move(what="layouts", value=tuple(sorted(value, key=lambda one: order.index(one[0]))))


def _constant_move(segment: Segment, choices: Choices, rng: random.Random) -> Move:
    """Return a move that sets a constant of `schedule.tuning` to a multiple of its default."""
    name = rng.choice(_CONSTANTS)
    default = getattr(tuning, name)
    value = type(default)(default * rng.choice(_FACTORS))
    return Move(what=name, value=float(value))


def _residency_move(segment: Segment, choices: Choices, rng: random.Random) -> Move | None:
    """Return a move that keeps other weights on chip between calls; None if none can be kept."""
    most = chunk_counts(segment, choices.first.limits)
    if not most or (choices.later is not None and rng.random() < _NONE_STAY):
        return None if choices.later is None else Move(what="residency", value=None)
    if choices.later is None or rng.random() >= _ONE_STAYS:
        return keep_weights(segment, choices, rng.choice(SHARES))
    one = rng.choice(sorted(most))
    counts = {at: sum(choices.first.keeps_chunk(at, n) for n in range(most[at])) for at in most}
    counts[one] = rng.choice([n for n in range(most[one] + 1) if n != counts[one]])
    return Move(what="residency", value=resident_chunks(segment, most, counts))


def keep_weights(segment: Segment, choices: Choices, share: float) -> Move | None:
    """Return the move that fills a share of the scratchpad with weights to keep between calls.

    Returns None if no weights fit.
    """
    most = chunk_counts(segment, choices.first.limits)
    counts = chunks_in_share(segment, most, share)
    if not any(counts.values()):
        return None
    return Move(what="residency", value=resident_chunks(segment, most, counts))


_Draw = Callable[[Segment, Choices, random.Random], Move | None]
_MOVES_BY_KIND: dict[str, _Draw] = {
    "all": _global_move,
    "spilled": _tensor_move,
    "layouts": _layout_move,
    "constant": _constant_move,
    "residency": _residency_move,
}

#: Relative frequency of each kind of move: fields of a stage's `TilingParams`, and other kinds.
_KINDS: dict[str, float] = {
    **dict.fromkeys(("tiles", "tile_bytes", "first", "last", "order"), 1.5),
    **dict.fromkeys(("chunk_bytes", "weights", "params_apart"), 1.5),
    **{"all": 1, "spilled": 2, "layouts": 1, "constant": 1.5, "residency": 2.5},
}
