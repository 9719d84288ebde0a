"""Tunes a network: its fusion, then the choices for each command buffer; measures the best."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

from matloom.compiler import CheckError, compile_unchecked
from matloom.compiler.winners import Winner
from matloom.errors import UserError
from matloom.program import Program
from matloom.runtime import load
from matloom.schedule import Choices
from matloom.select.rewrites.stage_passes import STAGE_PASSES
from matloom.tools.interface import random_arrays
from matloom.tuner.search import RatedChoices, Tuning
from matloom.tuner.study import Cost, Study, runs_of, stages_key

#: Largest ratio of the cycles of a first call to those of the default's first call.
_FIRST_SLOWER = 1.005


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of tuning.

    Members
    -------
    trials:
        Number of choices to predict, over all runs.
    until:
        Time of `time.monotonic` at which the search ends; None for no limit.
    measured:
        Number of choices to run on the simulated chip; 0 for none.
    """

    trials: int
    until: float | None = None
    measured: int = 3


@dataclass(frozen=True, kw_only=True)
class TuningResult:
    """Result of tuning: the fastest choices found, and cycles before and after.

    Members
    -------
    winner:
        The best choices; None if none is faster than the default.
    before, after:
        Cost of the default, and of the winner; if there is none, both are equal.
    predicted:
        Predicted cost of the choices that were predicted to be the best.
    trials:
        Number of choices that were predicted.
    counted:
        Whether the simulated chip counted `before` and `after`; otherwise, they are predicted.
    """

    winner: Winner | None
    before: Cost
    after: Cost
    predicted: Cost
    trials: int
    counted: bool


def tune(
    study: Study,
    journal: Path,
    budget: Budget,
    make: Callable[[], Executor],
    *,
    seed: int = 0,
    note: Callable[[str], None] = lambda text: None,
) -> TuningResult:
    """Return the fastest choices for a network that are found within the budget.

    Choices are predicted. If the budget says so, the best few then run on the simulated chip, and
    choices win only if they are faster there than the default: a first call may take 0.5 % longer,
    but no later one.

    Parameters
    ----------
    journal:
        File with the predictions of interrupted searches; new ones are appended.
    make:
        Makes an executor for the predictions.
    note:
        Called with lines of progress.
    """
    default = _total_cost(run.cost for run in runs_of(study))
    study = _choose_fusion(study, note)
    begin = time.monotonic()
    searches = _searches(study, journal, seed)
    done = 0
    for at, search in enumerate(searches):
        share = _deadline(budget, begin, at, len(searches))
        first = done

        def note_progress(count: int, gain: float, first: int = first) -> None:
            """Note the number of trials so far and the fraction of cycles saved."""
            note(f"{first + count} trials, {gain:.1%} fewer cycles predicted")

        trials = budget.trials // len(searches)
        search.run(trials, make, until=share, note=note_progress)
        done += search.trials_done
    found = list(_combine(searches))
    if budget.measured:
        return _measure(study, found, budget.measured, done, note)
    return _predicted_best(study, found[0], default, done)


def count_cycles(program: Program) -> Cost:
    """Return the cycles that the simulated chip counts in a first and a second call."""
    with load(program, device="rtl", memory=program.memory) as session:
        cycles = []
        for _ in range(2):
            session.run(random_arrays(program, 0))
            cycles.append(session.report().cycles)
    return Cost(*cycles)


def _choose_fusion(study: Study, note: Callable[[str], None]) -> Study:
    """Return the study without those passes over stages that make its network slower.

    Passes that change no stage of the network are not tried.
    """
    best, stages = study, stages_key(study)
    for each in STAGE_PASSES:
        other = replace(best, left_out=best.left_out | {each.__name__})
        without = stages_key(other)
        if without == stages:
            continue
        note(f"without {each.__name__}")
        if _predicted_cost(other).total < _predicted_cost(best).total:
            best, stages = other, without
    return best


def _predicted_cost(study: Study) -> Cost:
    """Return the predicted cycles of a network as scheduled by default."""
    return _total_cost(run.cost for run in runs_of(study))


def _searches(study: Study, journal: Path, seed: int) -> list[Tuning]:
    """Return a search for each engine run of a network."""
    return [
        Tuning(study=study, number=number, journal=journal, seed=seed)
        for number in range(len(runs_of(study)))
    ]


def _deadline(budget: Budget, begin: float, position: int, count: int) -> float | None:
    """Return the deadline of the search for one run, so that each run gets an equal share of time.

    `begin` is when the first search began. `position` is the index of the run, of `count` in all.
    Returns None if there is no time limit.
    """
    if budget.until is None:
        return None
    return begin + (budget.until - begin) * (position + 1) / count


def _total_cost(costs: Iterator[Cost]) -> Cost:
    """Return the sums of first calls and of later calls."""
    every = list(costs)
    return Cost(sum(each.first for each in every), sum(each.later for each in every))


def _combine(searches: list[Tuning]) -> Iterator[list[RatedChoices]]:
    """Yield combinations of the best choices of each run.

    The first has the best choices of all runs; the others have the next best ones for the run that
    takes the most cycles.
    """
    best = [search.best for search in searches]
    yield best
    at = max(range(len(best)), key=lambda each: best[each].cost.total)
    seen = {best[at].cost}
    for other in searches[at].best_choices:
        if other.cost not in seen:
            seen.add(other.cost)
            yield [*best[:at], other, *best[at + 1 :]]


def _predicted_best(
    study: Study, best: list[RatedChoices], before: Cost, trials: int
) -> TuningResult:
    """Return the result without measurement: the winner is the best by prediction.

    There is no winner if the default is as fast, or if the program fails its check.
    """
    after = _total_cost(each.cost for each in best)
    winner = None
    if after.total < before.total and _program(study, best) is not None:
        winner = _make_winner(study, best, before, after, counted=False)
    return TuningResult(
        winner=winner,
        before=before,
        after=before if winner is None else after,
        predicted=after,
        trials=trials,
        counted=False,
    )


def _measure(
    study: Study,
    candidates: list[list[RatedChoices]],
    count: int,
    trials: int,
    note: Callable[[str], None],
) -> TuningResult:
    """Count the cycles of up to `count` choices on the simulated chip; the fastest win.

    The default is counted first; choices can only win if their first call is at most 0.5 % slower
    and their later call is no slower. Choices whose program fails its check are left out. If a
    first call was too slow, choices whose first call is predicted to be faster come next.
    """
    note("counting the default on the simulated chip")
    plain = _program(study, None)
    if plain is None:
        raise UserError(
            "the program of the default schedule fails its check: there is nothing to compare with",
            hint="matloom compile NET -o NET.mloom says which layer is wrong",
        )
    before = count_cycles(plain)
    after, winner = before, None
    left, slow = list(candidates), math.inf
    for number in range(1, min(count, len(left)) + 1):
        combination = next((each for each in left if _first_call_cycles(each) < slow), left[0])
        left.remove(combination)
        note(f"counting {number} of {count} on the simulated chip")
        program = _program(study, combination)
        if program is None:
            continue
        cost = count_cycles(program)
        if cost.first > _FIRST_SLOWER * before.first:
            slow = _first_call_cycles(combination)
        elif cost.later <= before.later and cost.total < after.total:
            after, winner = cost, _make_winner(study, combination, before, cost, counted=True)
    return TuningResult(
        winner=winner,
        before=before,
        after=after,
        predicted=_total_cost(each.cost for each in candidates[0]),
        trials=trials,
        counted=True,
    )


def _first_call_cycles(combination: list[RatedChoices]) -> int:
    """Return the predicted cycles of a first call with these choices for all runs."""
    return _total_cost(each.cost for each in combination).first


def _program(study: Study, combination: list[RatedChoices] | None) -> Program | None:
    """Return the program with the given choices for each run; None if it fails its check.

    Without a combination of choices, it is the program of the default schedule.
    """
    options = replace(study.options, tuned=False)
    if combination is not None:
        options = replace(options, choices=_choices_of(combination), left_out=study.left_out)
    made = compile_unchecked(study.network(), study.config, options, study.job.precision)
    try:
        return replace(made.program, verdict=made.check("sample"))
    except CheckError:
        return None


def _choices_of(combination: list[RatedChoices]) -> tuple[Choices | None, ...]:
    """Return the choices of a combination, one for each engine run."""
    return tuple(each.choices for each in combination)


def _make_winner(
    study: Study, combination: list[RatedChoices], before: Cost, after: Cost, *, counted: bool
) -> Winner:
    """Return the record of a combination that is faster, for later compilations."""
    return Winner(
        choices=_choices_of(combination),
        left_out=study.left_out,
        before=before,
        after=after,
        counted=counted,
    )
