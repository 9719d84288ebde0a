"""Local search over choices, in rounds of moves from the best so far that workers evaluate."""

import itertools
import json
import random
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

from matloom.schedule import Choices, Segment
from matloom.schedule.params import TileOrder, WeightsLifetime
from matloom.tuner.moves import SHARES, Move, apply_move, draw_moves, for_equal_stages, keep_weights
from matloom.tuner.study import (
    Cost,
    StudiedRun,
    Study,
    Trial,
    cost_of,
    key_of,
    runs_of,
    segment_of,
    tiles_key,
)
from matloom.workers import run_as_completed

#: Number of trials of a round: enough to keep all workers busy, but few, so that rounds build on
#: each other.
_TRIALS_PER_ROUND = 8

#: Number of the best choices that are kept.
_BEST_KEPT = 16

#: Largest ratio of the cycles of a first call to those of the default's first call.
_FIRST_SLOWER = 1.005

#: Number of stages whose order is changed in the first rounds, those with the largest weight first.
_REORDERED = 16

#: Number of tensors, largest first, that are moved off the chip, or back, in the first rounds.
_SPILLED = 8

#: Maximum number of draws per round, of which many change no tile.
_MAX_DRAWS = 16 * _TRIALS_PER_ROUND

#: Share of trials that combine two moves.
_DOUBLE = 0.3


@dataclass(frozen=True, kw_only=True)
class RatedChoices:
    """Choices for one command buffer, and their predicted cost."""

    choices: Choices
    cost: Cost


@dataclass(kw_only=True)
class Tuning:
    """Search for the best choices for one run of the engine; it can be interrupted and continued.

    The result depends only on the seed and the number of trials, not on the workers or on
    interruptions.

    Members
    -------
    number:
        Index of the run among `runs_of(study)`.
    journal:
        File with a line for each trial; costs in it are not computed again.
    best_choices:
        The best choices so far, the best first.
    trials_done:
        Number of trials so far.
    """

    study: Study
    number: int
    journal: Path
    seed: int = 0
    best_choices: list[RatedChoices] = field(default_factory=list)
    trials_done: int = 0

    def __post_init__(self) -> None:
        run = runs_of(self.study)[self.number]
        self._run: StudiedRun = run
        self._known = dict(self._read_journal())
        self._stage_frequencies = _stage_frequencies(self.study, self.number)
        self._next: list[list[Move]] = []
        self._seen: set[Hashable] = {self._tiles_key(run.choices)}
        self.best_choices = [RatedChoices(choices=run.choices, cost=run.cost)]

    @property
    def _segment(self) -> Segment:
        """Stages of the command buffer that is tuned, with the layouts of the best choices."""
        found = segment_of(self.study, self.number, self.best.choices.layouts)
        return self._run.segment if found is None else found

    @property
    def best(self) -> RatedChoices:
        """The choices with the fewest predicted cycles so far."""
        return self.best_choices[0]

    def run(
        self,
        trials: int,
        make: Callable[[], Executor],
        *,
        until: float | None = None,
        note: Callable[[int, float], None] = lambda done, gain: None,
    ) -> list[RatedChoices]:
        """Search until `trials` trials are done or no new choices are found; return the best first.

        Parameters
        ----------
        until:
            Time of `time.monotonic` after which no further round begins; None for no limit.
        note:
            Called after each round with the number of trials so far, and the share of cycles saved.
        """
        number = 0
        openers = iter([[move] for move in self._first_moves()])
        while self.trials_done < trials and (until is None or time.monotonic() < until):
            draw = random.Random(f"{self.seed} {self.number} {number}")
            drawn = (self._draw_moves(draw) for _ in range(_MAX_DRAWS))
            moves = self._untried_moves(itertools.chain(self._next, openers, drawn))
            if not moves:
                break
            self._run_round(moves[: trials - self.trials_done], make)
            self.trials_done = min(self.trials_done + len(moves), trials)
            number += 1
            note(self.trials_done, 1 - self.best.cost.total / self._run.cost.total)
        return self.best_choices

    def _first_moves(self) -> Iterator[Move]:
        """Yield moves to try first, because they often save many cycles.

        They change choices for all stages, which the default schedule drops early if memory is
        short; the weights that are resident; orders and weights of the costliest stages; and
        whether large tensors are on chip.
        """
        segment, choices = self._segment, self._run.choices
        for what in ("avoid_conflicts", "in_place", "over_inputs", "results_first"):
            yield Move(what=what, value=not getattr(choices.first, what))
        if self._run.may_pin:
            made = (keep_weights(segment, choices, share) for share in SHARES)
            yield from dict.fromkeys(move for move in made if move is not None)
        heavy = sorted(
            range(len(self._stage_frequencies)), key=lambda at: -self._stage_frequencies[at]
        )
        for at in heavy[:_REORDERED]:
            limits = choices.first.limits[at]
            order = (
                TileOrder.BY_ROWS if limits.order is TileOrder.BY_BLOCKS else TileOrder.BY_BLOCKS
            )
            yield Move(what="order", value=order, stage=at)
            if segment.stages[at].loads_weights and limits.weights is not WeightsLifetime.RESIDENT:
                other = (
                    WeightsLifetime.ONCE
                    if limits.weights is WeightsLifetime.STREAMED
                    else WeightsLifetime.STREAMED
                )
                yield Move(what="weights", value=other, stage=at)
        able = segment.sizes.keys() - segment.on_chip - segment.views.keys()
        for name in sorted(able, key=lambda each: (-segment.sizes[each], each))[:_SPILLED]:
            yield Move(what="spilled", value=name)

    def _draw_moves(self, rng: random.Random) -> list[Move]:
        """Return one or two random changes, as moves to make together; empty if not applicable."""
        size = 2 if rng.random() < _DOUBLE else 1
        segment, choices = self._segment, self.best.choices
        made = [
            move
            for _ in range(size)
            for move in draw_moves(segment, choices, self._stage_frequencies, rng)
        ]
        return made if self._run.may_pin or all(one.what != "residency" for one in made) else []

    def _untried_moves(self, candidates: Iterable[list[Move]]) -> list[list[Move]]:
        """Return the moves for a round: the first candidates with tiles that were not tried yet."""
        start, found = self.best.choices, list[list[Move]]()
        for moves in candidates:
            cuts = self._tiles_key(_apply_all(start, moves))
            if cuts not in self._seen:
                self._seen.add(cuts)
                found.append(moves)
                if len(found) == _TRIALS_PER_ROUND:
                    break
        return found

    def _tiles_key(self, choices: Choices) -> Hashable:
        """Return a key that is equal for choices that lead to the same schedule."""
        return tiles_key(Trial(study=self.study, run=self.number, choices=choices))

    def _run_round(self, moves: list[list[Move]], make: Callable[[], Executor]) -> None:
        """Evaluate moves from the best choices so far; update the list of the best choices.

        Choices are added to the list if they take no more cycles than the best so far.
        """
        start = self.best
        tried = [_apply_all(start.choices, each) for each in moves]
        slowest = _FIRST_SLOWER * self._run.cost.first
        trials = [
            Trial(study=self.study, run=self.number, choices=each, slowest=slowest)
            for each in tried
        ]
        costs = self._cost_of_trials(trials, make)
        better: list[tuple[Cost, int]] = []
        for at, cost in enumerate(costs):
            if cost is not None and cost.total <= start.cost.total and tried[at] != start.choices:
                better.append((cost, at))
        better.sort(key=lambda item: (item[0].total, item[1]))
        self._next = self._next_moves([moves[at] for cost, at in better if cost != start.cost])
        for cost, at in reversed(better):
            self.best_choices.insert(0, RatedChoices(choices=tried[at], cost=cost))
        self.best_choices.sort(key=lambda each: each.cost.total)
        del self.best_choices[_BEST_KEPT:]

    def _next_moves(self, better: list[list[Move]]) -> list[list[Move]]:
        """Return the moves to try next, given the moves of this round that save cycles.

        The first of `better` is the best, and already applied. The others are tried together, then
        each by itself, and then all moves of one stage for the other stages of the same shape.
        """
        others = [move for moves in better[1:] for move in moves]
        every = [
            move for moves in better for one in moves for move in self._for_other_equal_stages(one)
        ]
        return [moves for moves in (others, *better[1:], every) if moves]

    def _for_other_equal_stages(self, move: Move) -> list[Move]:
        """Return the same move for each other stage of equal shape."""
        return [other for other in for_equal_stages(self._segment, move) if other != move]

    def _cost_of_trials(
        self, trials: list[Trial], make: Callable[[], Executor]
    ) -> list[Cost | None]:
        """Return the cost of each trial, None if refused; append new ones to the journal."""
        keys = [key_of(each) for each in trials]
        new = {key: each for key, each in zip(keys, trials, strict=True) if key not in self._known}
        names = list(new)
        with self.journal.open("a", encoding="utf-8") as journal:
            for at, cost in run_as_completed(cost_of, list(new.values()), make):
                self._known[names[at]] = cost
                journal.write(json.dumps({"key": names[at], "cost": cost}) + "\n")
                journal.flush()
        return [self._known[key] for key in keys]

    def _read_journal(self) -> Iterator[tuple[str, Cost | None]]:
        """Yield key and cost of each trial in the journal, without lines that cannot be read."""
        if not self.journal.exists():
            return
        for line in self.journal.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found = json.loads(line)
                cost = found["cost"]
                key = str(found["key"])
                yield key, None if cost is None else Cost(int(cost[0]), int(cost[1]))
            except (ValueError, KeyError, TypeError, IndexError):
                continue


def _apply_all(choices: Choices, moves: list[Move]) -> Choices:
    """Return a copy of the choices with all of the moves made."""
    for move in moves:
        choices = apply_move(choices, move)
    return choices


def _stage_frequencies(study: Study, number: int) -> list[float]:
    """Return the relative frequency with which to change each stage of run `number` of the engine.

    A third is the same for all stages, a third is in proportion to their computation and weight
    transfers, and a third to the cycles in which they wait.
    """
    run = runs_of(study)[number]
    segment = segment_of(study, number, run.choices.layouts) or run.segment
    grids = [stage.grid for stage in segment.stages]
    sizes = [each.images * each.rows * each.width * each.blocks for each in grids]
    costs = [
        size * getattr(stage, "steps", 1) + segment.machine.transfer_cycles(stage.weight_bytes)
        for size, stage in zip(sizes, segment.stages, strict=True)
    ]
    total, waits, count = sum(costs) or 1, sum(run.waits) or 1, len(costs)
    return [
        cost / total + wait / waits + 1 / count for cost, wait in zip(costs, run.waits, strict=True)
    ]
