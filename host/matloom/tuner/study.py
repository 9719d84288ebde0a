"""Predicts the cost of choices for a network; workers run these predictions."""

import functools
import hashlib
import json
import math
import pickle
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from matloom.arch.config import Config
from matloom.arch.garbage import gc_paused
from matloom.compiler.pipeline import run_phases
from matloom.compiler.schedule_runs import place_constants
from matloom.compiler.values import Job, Rewritten, ScheduledNetwork, ScheduledRun
from matloom.compiler.winners import winner_digest
from matloom.ir.graph import Graph
from matloom.passes.choose_modes import Precision
from matloom.schedule import Choices, CompileOptions, ProgramImage, Scheduled, Segment, tuning
from matloom.schedule.cache import Cache
from matloom.schedule.choices.record import to_json
from matloom.schedule.cut import cut_stages
from matloom.schedule.replay import apply_layouts, choices_of, replay
from matloom.select.rewrites.staged_run import StagedRun
from matloom.select.text import stage_line

#: Alternative layouts and the tensors that have them, as in `Choices.layouts`.
Layouts = tuple[tuple[str, frozenset[str]], ...]

#: Maximum number of caches of intermediate results in a worker.
_CACHES = 4


class Cost(NamedTuple):
    """Cycles of a first call, and of a later one, which may find weights on chip."""

    first: int
    later: int

    @property
    def total(self) -> int:
        """Cycles of both calls together, which a search minimises."""
        return self.first + self.later


@dataclass(frozen=True, kw_only=True)
class Study:
    """A network, engine and memory for which schedules are to be tuned.

    Members
    -------
    graph:
        The network, pickled.
    precision:
        The precision, as JSON.
    left_out:
        Names of the passes over stages that are left out.
    digest:
        Digest of everything that costs depend on, except `left_out`.
    """

    graph: bytes = field(repr=False, compare=False)
    config: Config
    options: CompileOptions
    precision: str = ""
    left_out: frozenset[str] = frozenset()
    digest: str

    @property
    def job(self) -> Job:
        """The compiler's options and engine for the network."""
        options = replace(self.options, tuned=False, left_out=self.left_out)
        return Job(
            config=self.config, options=options, precision=json.loads(self.precision or "null")
        )

    def network(self) -> Graph:
        """Return the network."""
        graph = pickle.loads(self.graph)
        assert isinstance(graph, Graph)
        return graph


@dataclass(frozen=True, kw_only=True)
class StudiedRun:
    """One run of the engine (a command buffer) in a call of a network, as scheduled by default.

    Members
    -------
    segment:
        The stages that the command buffer computes.
    choices, cost:
        Choices of the default schedule, and their predicted cost.
    waits:
        Predicted cycles of each stage beyond those of its tiles, with the default choices.
    may_pin:
        Whether weights may stay on chip between calls, which requires that the network has no other
        run of the engine.
    """

    segment: Segment
    choices: Choices
    cost: Cost
    waits: tuple[int, ...]
    may_pin: bool


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Choices for a schedule, such as tiles and layouts, whose cost is to be predicted.

    `run` is the index of the run of the engine in `runs_of(study)`. If the first call takes more
    than `slowest` cycles, the choices are refused.
    """

    study: Study
    run: int
    choices: Choices
    slowest: float = math.inf


def new_study(
    graph: Graph, config: Config, options: CompileOptions, precision: Precision | None = None
) -> Study:
    """Return a study of a network; arguments are as for a compilation."""
    return Study(
        graph=pickle.dumps(graph),
        config=config,
        options=options,
        precision=json.dumps(precision),
        digest=winner_digest(graph, config, options.memory, precision),
    )


def key_of(trial: Trial) -> str:
    """Return a digest that identifies a trial in the journal."""
    parts = [
        trial.study.digest,
        sorted(trial.study.left_out),
        trial.run,
        to_json(trial.choices),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


@functools.lru_cache(maxsize=8)
def runs_of(study: Study) -> tuple[StudiedRun, ...]:
    """Return the runs of the engine (of a command buffer each) in a call of a network."""
    found = run_phases(study.network(), study.job, "schedule").values["schedule"]
    assert isinstance(found, ScheduledNetwork)
    image, runs = ProgramImage(), list[StudiedRun]()
    scheduled = [run for run in found.runs if isinstance(run, ScheduledRun)]
    for run in scheduled:
        made = run.scheduled
        runs.append(
            StudiedRun(
                segment=place_constants(found.bound, run.bound, image),
                choices=choices_of(made),
                cost=_cost_of_schedule(made),
                waits=_waiting_cycles(made),
                may_pin=len(scheduled) == 1,
            )
        )
        image = made.image
    return tuple(runs)


def stages_key(study: Study) -> Hashable:
    """Return a key that is equal for studies whose networks have equal stages.

    Stages are not scheduled for it.
    """
    found = run_phases(study.network(), study.job, "rewrite").values["rewrite"]
    assert isinstance(found, Rewritten)
    return tuple(
        (tuple(stage_line(stage) for group in run.stages for stage in group), str(run.views))
        for run in found.runs
        if isinstance(run, StagedRun)
    )


def cost_of(trial: Trial) -> Cost | None:
    """Return the predicted cost of choices; None if they are impossible, or too slow."""
    run = runs_of(trial.study)[trial.run]
    if trial.choices.later is not None and not run.may_pin:
        return None
    layouts, constants = trial.choices.layouts, trial.choices.constants
    with gc_paused():
        cache = _search_cache(trial.study, trial.run, layouts, constants)
        try:
            # Its instructions stay in the cache.
            found = replay(run.segment, replace(trial.choices, later=None), cache)
            if isinstance(found, Scheduled) and found.prediction.cycles <= trial.slowest:
                found = replay(run.segment, trial.choices, cache)
            else:
                return None
        except (ValueError, LookupError, AssertionError):
            # Moves may violate assumptions of the steps, such as tensors that their layout keeps on
            # chip.
            return None
    return _cost_of_schedule(found) if isinstance(found, Scheduled) else None


def tiles_key(trial: Trial) -> Hashable:
    """Return a key that is equal for choices that lead to the same schedule.

    Choices with equal tiles and otherwise equal choices do. The key is computed much faster than a
    schedule, and avoids many: most changes of a limit leave all tiles unchanged.
    """
    choices = trial.choices
    segment = segment_of(trial.study, trial.run, choices.layouts)
    if segment is None:
        return choices
    cache = _tiles_cache(trial.study, trial.run, choices.layouts, choices.constants)
    with tuning.override(dict(choices.constants)):
        cuts = [
            (replace(each, limits=()), *cut_stages(segment, each, cache))
            for each in (choices.first, choices.later)
            if each is not None
        ]
    return choices.layouts, choices.constants, *cuts


@functools.lru_cache(maxsize=_CACHES)
def segment_of(study: Study, run: int, layouts: Layouts) -> Segment | None:
    """Return the segment of a run with the given layouts; None if its tensors cannot have them."""
    studied = runs_of(study)[run]
    made = apply_layouts(studied.segment, replace(studied.choices, layouts=layouts))
    return made if isinstance(made, Segment) else None


@functools.lru_cache(maxsize=_CACHES)
def _search_cache(study: Study, run: int, layouts: Layouts, constants: Sequence[object]) -> Cache:
    """Return an empty cache for searches; equal arguments share one."""
    return Cache()


@functools.lru_cache(maxsize=_CACHES)
def _tiles_cache(study: Study, run: int, layouts: Layouts, constants: Sequence[object]) -> Cache:
    """Return a cache for `tiles_key` only, in which equal tiles are always the same objects."""
    return Cache()


def _waiting_cycles(scheduled: Scheduled) -> tuple[int, ...]:
    """Return, for each stage, the predicted cycles in which neither EXEC nor POST is busy."""
    times, waits, before = scheduled.prediction.timestamps, list[int](), 0
    for mark, tiling in zip(scheduled.segment.timestamps, scheduled.plan.tilings, strict=True):
        done = times.get(mark, before)
        waits.append(max(0, done - before - sum(tiling.cycles)))
        before = max(before, done)
    return tuple(waits)


def _cost_of_schedule(scheduled: Scheduled) -> Cost:
    """Return the predicted cycles of a first and a later call of a schedule."""
    first = scheduled.prediction.cycles
    return Cost(first, scheduled.repeat.prediction.cycles if scheduled.repeat else first)
