"""Moves of a search: single changes of the choices of a segment, drawn at random."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matloom.schedule import tuning
from matloom.schedule.choices.layouts import LAYOUTS
from matloom.schedule.choices.record import Choices
from matloom.schedule.choices.residency import chunk_counts, chunks_in_share, resident_chunks
from matloom.schedule.params import UNBOUNDED, First, Last, Order, Weights
from matloom.schedule.plan import ScheduleParams
from matloom.schedule.segment import Segment

#: Stages that keep no weights, and the number of chunks that other stages keep.
_Stay = tuple[frozenset[int], tuple[tuple[int, int], ...]]

#: Values to try.
_TILES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
_CHUNKS = (*(1 << bits for bits in range(9, 17)), 24 << 10, UNBOUNDED)
_TILE_BYTES = (*(1 << bits for bits in range(10, 18)), UNBOUNDED)
_FACTORS = (0.5, 0.75, 1.5, 2.0)
#: Shares of the scratchpad to fill with resident weights.
SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

#: Probabilities: a move of a stage leaves the first call unchanged; a move of a layout removes it
#: from all tensors, or gives it to a single one; a move of residency keeps no weights, or changes a
#: single stage's number of chunks.
_LATER_ALONE, _TO_NONE, _TO_ONE, _NONE_STAY, _ONE_STAYS = 0.5, 0.3, 0.5, 0.1, 0.7

#: Constants that the steps of a schedule read.
_CONSTANTS = (
    *("BLOCK_ENTRIES", "TALLER_TILES", "RESULT_CYCLES", "RESULT_LATENCY", "NARROWER_BYTES"),
    *("STORED_BEATS", "STORED_TILES", "REST_SLOTS", "INPUT_CONFLICT"),
)


@dataclass(frozen=True, kw_only=True)
class Move:
    """A change of one choice.

    Members
    -------
    what:
        The choice: with a `stage`, a field of `TilingParams`, else of `ScheduleParams`, or
        ``"layouts"``, ``"residency"``, ``"spilled"`` or a constant of `schedule.tuning`.
    value:
        Its new value.
    stage:
        Index of the stage.
    later_alone:
        Leave the first call unchanged.
    """

    what: str
    value: Any
    stage: int | None = None
    later_alone: bool = False


def apply_move(choices: Choices, move: Move) -> Choices:
    """Return the choices after a move."""
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


def _with_residency(choices: Choices, residency: "_Stay | None") -> Choices:
    """Return the choices with these weights resident on chip; None for no resident weights."""
    if residency is None:
        first = replace(choices.first, resident=False, leaving=frozenset(), partly=())
        return replace(choices, first=first, later=None)
    leaving, partly = residency
    first = replace(choices.first, resident=True, leaving=leaving, partly=partly)
    later = choices.later or first
    later = replace(later, resident=False, leaving=leaving, partly=partly)
    return replace(choices, first=first, later=later)


def _change_params(params: ScheduleParams, move: Move) -> ScheduleParams:
    if move.stage is not None:
        limits = list(params.limits)
        limits[move.stage] = replace(limits[move.stage], **{move.what: move.value})
        return replace(params, limits=tuple(limits))
    if move.what == "spilled":
        return replace(params, spilled=params.spilled ^ {move.value})
    return replace(params, **{move.what: move.value})


def draw_move(
    segment: Segment,
    choices: Choices,
    weights: Sequence[float],
    rng: random.Random,
    kind: str | None = None,
) -> Move | None:
    """Return a random move, of the given kind if any; None if it would change nothing.

    Parameters
    ----------
    weights:
        Weight with which each stage is drawn.
    """
    if kind is None:
        (kind,) = rng.choices(tuple(_KINDS), tuple(share for share, _ in _KINDS.values()))
    return _KINDS[kind][1](segment, choices, weights, rng)


def _stage_move(
    segment: Segment, choices: Choices, weights: Sequence[float], rng: random.Random
) -> Move | None:
    """Change the tiles of a stage."""
    (at,) = rng.choices(range(len(weights)), weights)
    stage, before = segment.stages[at], choices.first.limits[at]
    fields: list[tuple[str, Any]] = [
        ("tiles", rng.choice(_TILES)),
        ("tile_bytes", rng.choice(_TILE_BYTES)),
        ("first", rng.choice(tuple(First))),
        ("last", before.last ^ rng.choice((Last.CHUNKS, Last.ROWS, Last.BLOCKS))),
        ("order", Order.BY_ROWS if before.order is Order.BY_BLOCKS else Order.BY_BLOCKS),
    ]
    if stage.loads_weights:
        fields += [
            ("chunk_bytes", rng.choice(_CHUNKS)),
            ("weights", rng.choice(tuple(Weights))),
        ]
    if stage.has_params:
        fields.append(("params_apart", not before.params_apart))
    what, value = rng.choice(fields)
    if getattr(before, what) == value:
        return None
    alone = choices.later is not None and what in _OF_LATER and rng.random() < _LATER_ALONE
    return Move(what=what, value=value, stage=at, later_alone=alone)


#: Fields of a stage that do not affect how its weights are cut.
_OF_LATER = ("tiles", "tile_bytes", "first", "order")


def _global_move(
    segment: Segment, choices: Choices, weights: Sequence[float], rng: random.Random
) -> Move:
    """Change a choice that holds for all stages."""
    what = rng.choice(("avoid_conflicts", "in_place", "over_inputs", "results_first"))
    return Move(what=what, value=not getattr(choices.first, what))


def _tensor_move(
    segment: Segment, choices: Choices, weights: Sequence[float], rng: random.Random
) -> Move | None:
    """Move a tensor from the chip to external memory, or back."""
    names = [
        name for name in segment.sizes if name not in segment.on_chip and name not in segment.views
    ]
    return Move(what="spilled", value=rng.choice(names)) if names else None


def _layout_move(
    segment: Segment, choices: Choices, weights: Sequence[float], rng: random.Random
) -> Move | None:
    """Give tensors another layout, or one of them the ordinary layout."""
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


def _constant_move(
    segment: Segment, choices: Choices, weights: Sequence[float], rng: random.Random
) -> Move:
    """Change a constant that steers the steps of a schedule."""
    name = rng.choice(_CONSTANTS)
    default = getattr(tuning, name)
    value = type(default)(default * rng.choice(_FACTORS))
    return Move(what=name, value=float(value))


def _residency_move(
    segment: Segment, choices: Choices, weights: Sequence[float], rng: random.Random
) -> Move | None:
    """Let other weights stay on chip."""
    most = chunk_counts(segment, choices.first.limits)
    if not most or (choices.later is not None and rng.random() < _NONE_STAY):
        return None if choices.later is None else Move(what="residency", value=None)
    if choices.later is None or rng.random() >= _ONE_STAYS:
        return keep_weights(segment, choices, rng.choice(SHARES))
    one = rng.choice(sorted(most))
    counts = {at: sum(choices.first.stays(at, n) for n in range(most[at])) for at in most}
    counts[one] = rng.choice([n for n in range(most[one] + 1) if n != counts[one]])
    return Move(what="residency", value=resident_chunks(segment, most, counts))


def keep_weights(segment: Segment, choices: Choices, share: float) -> Move | None:
    """Return the move that keeps weights in a share of the scratchpad; None if there are none."""
    most = chunk_counts(segment, choices.first.limits)
    counts = chunks_in_share(segment, most, share)
    if not any(counts.values()):
        return None
    return Move(what="residency", value=resident_chunks(segment, most, counts))


_Draw = Callable[[Segment, Choices, Sequence[float], random.Random], Move | None]
#: Kinds of moves, and the weight with which each is drawn.
_KINDS: dict[str, tuple[float, _Draw]] = {
    "stage": (12, _stage_move),
    "all": (1, _global_move),
    "tensor": (2, _tensor_move),
    "layout": (1, _layout_move),
    "constant": (1.5, _constant_move),
    "residency": (2.5, _residency_move),
}
