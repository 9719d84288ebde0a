"""Choices as data: they make the same program without a search, and survive JSON."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

import matloom
from matloom.arch.config import load_config
from matloom.compiler import CompileOptions, Job, run_phases
from matloom.compiler.values import ScheduledRun
from matloom.data.digits import NETWORK
from matloom.schedule import DoesNotFit, Scheduled, tuning
from matloom.schedule.choices.record import Choices, from_json, to_json
from matloom.schedule.params import (
    FirstTiles,
    LastTiles,
    Prologue,
    TileOrder,
    TilingParams,
    WeightsLifetime,
)
from matloom.schedule.plan import ScheduleParams
from matloom.schedule.replay import choices_of, replay
from matloom.tools.interface import random_arrays
from support.mobilenet import mobilenet


def searched(network, config):
    """Return the segments before the search, and what it makes of them."""
    job = Job(config=load_config(config), options=CompileOptions(tuned=False))
    found = run_phases(network, job, "schedule").values["schedule"].runs
    return [(run.bound.segment, run.scheduled) for run in found if isinstance(run, ScheduledRun)]


@pytest.mark.parametrize("config", ["nano", "small"])
def test_recorded_choices_make_the_same_program(config):
    network = mobilenet(7, 32) if config == "small" else NETWORK
    choices = tuple(choices_of(made) for _segment, made in searched(network, config))
    again = tuple(from_json(json.loads(json.dumps(to_json(each)))) for each in choices)
    assert again == choices
    made = matloom.compile(network, config, CompileOptions(choices=again), check="none")
    plain = matloom.compile(network, config, check="none")
    assert made.to_bytes() == plain.to_bytes()


def test_every_choice_survives_json():
    limits = TilingParams(
        weights=WeightsLifetime.ONCE,
        chunk_bytes=5,
        tile_bytes=6,
        tiles=7,
        first=Prologue(rows=1, blocks=2, steps=3),
        last=LastTiles.ROWS | LastTiles.BLOCKS,
        order=TileOrder.BY_BLOCKS,
        params_apart=True,
    )
    params = ScheduleParams(
        spilled=frozenset({"b", "a"}),
        limits=(limits, replace(limits, first=FirstTiles.SPLIT)),
        avoid_conflicts=False,
        in_place=True,
        results_first=True,
        over_inputs=True,
        strips=True,
        one_by_one=frozenset({0}),
        turns=True,
        leaving=frozenset({1}),
        partly=((0, 3),),
    )
    choices = Choices(
        layouts=(("2 x 2 blocks", frozenset({"x"})),),
        first=replace(params, resident=True),
        later=params,
        constants=(("REST_SLOTS", 3.0),),
    )
    assert from_json(json.loads(json.dumps(to_json(choices)))) == choices
    derived = {"seed", "pinned_at", "start", "plain"}
    chosen = [each for each in fields(ScheduleParams) if each.name not in derived]
    assert all(getattr(choices.first, each.name) != each.default for each in chosen)


def test_choices_of_another_network_do_not_apply():
    ((segment, made),) = searched(NETWORK, "nano")
    choices = choices_of(made)
    fewer = replace(choices, first=replace(choices.first, limits=choices.first.limits[1:]))
    assert isinstance(replay(segment, fewer), DoesNotFit)
    other = replace(choices, layouts=(("2 x 2 blocks", frozenset({"no such tensor"})),))
    assert isinstance(replay(segment, other), DoesNotFit)
    # A compilation then searches.
    program = matloom.compile(NETWORK, "nano", CompileOptions(choices=(fewer,)), check="none")
    plain = matloom.compile(NETWORK, "nano", check="none")
    assert program.to_bytes() == plain.to_bytes()


@pytest.mark.parametrize("count", [0, 1])
def test_some_weights_stay(count):
    """Later calls load what does not stay, and give what the first call gave.

    Of the heaviest stage so many of several chunks stay.
    """
    ((segment, made),) = searched(NETWORK, "nano")
    heavy = max(range(len(segment.stages)), key=lambda at: segment.stages[at].weight_bytes)
    limits = list(made.plan.params.limits)
    limits[heavy] = replace(limits[heavy], chunk_bytes=segment.stages[heavy].weight_bytes // 3)
    first = replace(
        made.plan.params,
        limits=tuple(limits),
        resident=True,
        leaving=frozenset() if count else frozenset({heavy}),
        partly=((heavy, count),) if count else (),
        pinned_at=None,
    )
    choices = Choices(first=first, later=replace(first, resident=False))
    found = replay(segment, choices)
    assert isinstance(found, Scheduled)
    assert found.repeat is not None
    loads = [load.what for load in found.repeat.plan.loads if load.what[0] == "chunk"]
    every = [load.what for load in found.plan.loads if load.what[:2] == ("chunk", heavy)]
    assert sorted(set(loads)) == sorted(each for each in set(every) if each[2] >= count)
    assert len(set(every)) > 1
    kept = sum(end - start for start, end in found.repeat.weight_ranges)
    weights = [stage.weight_bytes for stage in segment.stages]
    assert 0 < kept <= 2 * (sum(weights) - weights[heavy] * (3 - count) // 3)
    options = CompileOptions(choices=(choices,))
    with (
        matloom.load(NETWORK, "model", "nano", options) as session,
        matloom.load(NETWORK, "model", "nano") as plain,
    ):
        assert session.program.repeat is not None
        for seed in (1, 2, 1):
            given = random_arrays(plain.program, seed)
            expected, made_here = plain.run(given), session.run(given)
            assert all(np.array_equal(made_here[name], expected[name]) for name in expected)


def test_constants_have_their_values_again():
    before = tuning.REST_SLOTS
    with tuning.override({"REST_SLOTS": 5.0}):
        assert tuning.REST_SLOTS == 5
        assert isinstance(tuning.REST_SLOTS, int)
    assert before == tuning.REST_SLOTS
    with pytest.raises(KeyError), tuning.override({"NONE": 1.0}):
        pass
