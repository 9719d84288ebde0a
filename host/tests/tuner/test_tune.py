"""Tuning: the same result by any number of workers and after any interruption, kept and used."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.arch.config import PRESETS, load_config
from matloom.compiler import CheckError, CompileOptions, winners
from matloom.compiler.values import Compiled
from matloom.compiler.winners import Winner, delete_winner, load_winner, save_winner
from matloom.data.digits import NETWORK
from matloom.select.rewrites.stage_passes import STAGE_PASSES
from matloom.tools.explain import explain
from matloom.tools.interface import random_arrays
from matloom.tuner import study as studies
from matloom.tuner import tune as tuner
from matloom.tuner.moves import Move, apply_move, for_equal_stages
from matloom.tuner.search import RatedChoices, Tuning
from matloom.tuner.study import Cost, Trial, cost_of, new_study, runs_of, segment_of
from matloom.tuner.tune import Budget, tune
from matloom.workers import processes
from support.chain import Chain

SERIAL = partial(processes, 1)


@pytest.fixture(scope="module")
def study():
    return new_study(frontend.load(NETWORK), load_config("nano"), CompileOptions())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(winners.VARIABLE, str(tmp_path / "winners"))
    return tmp_path


def searched(study, journal, trials, make=SERIAL):
    return Tuning(study=study, number=0, journal=journal, seed=1).run(trials, make)


def test_a_search_goes_on_where_it_stopped(study, tmp_path, monkeypatch):
    whole = searched(study, tmp_path / "whole", 24)
    assert whole[0].cost.total <= runs_of(study)[0].cost.total
    searched(study, tmp_path / "parts", 16)
    with (tmp_path / "parts").open("a") as journal:
        journal.write('3\n{"key": 1}\n{"key": "cut')
    assert searched(study, tmp_path / "parts", 24) == whole
    monkeypatch.setattr("matloom.tuner.search.cost_of", None)
    assert searched(study, tmp_path / "whole", 24) == whole


def test_no_trial_is_made_twice(study, tmp_path):
    search = Tuning(study=study, number=0, journal=tmp_path / "journal", seed=2)
    search.run(100, SERIAL)
    assert len((tmp_path / "journal").read_text().splitlines()) == search.trials_done


def test_moves_are_of_the_stages_that_layouts_make(tmp_path):
    """Fused layers are more stages than the network has; moves reach the last of them, too."""
    config = replace(PRESETS["reference"], spad_bytes=32 * 1024, spad_banks=4)
    graph = Chain((1, 44, 36, 3)).convolve(8, 3).convolve(48).halve().convolve(8).graph()
    study = new_study(graph, config, CompileOptions(tuned=False))
    (run,) = runs_of(study)
    stages = len(run.choices.first.limits)
    assert stages > len(run.segment.stages)
    assert segment_of(study, 0, run.choices.layouts) != run.segment
    made = []
    search = Tuning(study=study, number=0, journal=tmp_path / "journal", seed=1)
    costs = search._cost_of_trials
    search._cost_of_trials = lambda trials, make: [made.extend(trials), costs(trials, make)][1]
    assert search.run(40, SERIAL)[0].cost.total <= run.cost.total
    assert any(each.choices.first.limits[-1] != run.choices.first.limits[-1] for each in made)


def test_a_move_may_be_made_for_all_stages_of_a_shape():
    chain = Chain((1, 8, 8, 16)).convolve(32).convolve(16).convolve(32).convolve(16)
    study = new_study(chain.graph(), load_config("nano"), CompileOptions(tuned=False))
    segment = runs_of(study)[0].segment
    moves = for_equal_stages(segment, Move(what="tiles", value=3, stage=1))
    assert moves == [Move(what="tiles", value=3, stage=at) for at in (1, 3)]
    assert for_equal_stages(segment, Move(what="in_place", value=True)) == [
        Move(what="in_place", value=True)
    ]


@pytest.mark.slow
def test_workers_find_the_same(study, tmp_path):
    one = searched(study, tmp_path / "one", 48)
    assert searched(study, tmp_path / "two", 48, partial(processes, 2)) == one
    lines = [sorted((tmp_path / name).read_text().splitlines()) for name in ("one", "two")]
    assert lines[0] == lines[1]


def test_costs_are_those_of_the_program(study):
    """What a search compares is what a compilation with its choices predicts."""
    (run,) = runs_of(study)
    fewer = apply_move(run.choices, Move(what="tiles", value=1, stage=0))
    cost = cost_of(Trial(study=study, run=0, choices=fewer))
    program = matloom.compile(NETWORK, "nano", CompileOptions(choices=(fewer,)), check="none")
    later = program.repeat.predicted_cycles if program.repeat else program.predicted_cycles
    assert cost == Cost(program.predicted_cycles, later)
    assert cost != run.cost


def test_winners_serve_later_compilations(study, folder):
    plain = matloom.compile(NETWORK, "nano", check="none")
    assert not plain.origin.tuned
    (run,) = runs_of(study)
    choices = apply_move(run.choices, Move(what="tiles", value=1, stage=0))
    winner = Winner(choices=(choices,), before=(9, 8), after=(7, 6), counted=True)
    path = save_winner(study.digest, winner)
    assert load_winner(study.digest) == winner
    program = matloom.compile(NETWORK, "nano")
    assert program.to_bytes() != plain.to_bytes()
    assert winner.sentence in explain(program)
    given = random_arrays(plain, 5)
    with matloom.load(program, "model") as session, matloom.load(plain, "model") as other:
        made, expected = session.run(given), other.run(given)
    assert all(np.array_equal(made[name], expected[name]) for name in expected)
    # Not for other engines or memories, nor where other schedules are asked for.
    assert not matloom.compile(NETWORK, "nano+lanes=4", check="none").origin.tuned
    assert not matloom.compile(NETWORK, "nano", memory="on-chip", check="none").origin.tuned
    options = CompileOptions(tuned=False)
    assert matloom.compile(NETWORK, "nano", options, check="none").to_bytes() == plain.to_bytes()
    for damaged in ("", "[]", '{"choices": [3]}', path.read_text()[:-40]):
        path.write_text(damaged)
        assert matloom.compile(NETWORK, "nano", check="none").to_bytes() == plain.to_bytes()
    assert delete_winner(study.digest)
    assert not delete_winner(study.digest)


def test_nothing_slower_on_the_chip_wins(study, tmp_path, monkeypatch):
    """However good a prediction is, the chip's counters decide."""
    counts = {"default": Cost(1000, 1000), "tuned": Cost(1000, 1001)}

    def count(program):
        return counts["tuned" if tuned[0] else "default"]

    def program(study, bests):
        tuned[0] = bests is not None
        return program

    tuned = [False]
    monkeypatch.setattr(tuner, "count_cycles", count)
    monkeypatch.setattr(tuner, "_program", program)
    budget = Budget(trials=16, measured=2)
    found = tune(study, tmp_path / "journal", budget, SERIAL)
    assert found.winner is None
    assert found.after == found.before == Cost(1000, 1000)
    counts["tuned"] = Cost(1010, 900)
    assert tune(study, tmp_path / "journal", budget, SERIAL).winner is None
    counts["tuned"] = Cost(1004, 900)
    found = tune(study, tmp_path / "journal", budget, SERIAL)
    assert (found.winner.before, found.winner.after) == ((1000, 1000), (1004, 900))


def test_after_a_first_call_that_is_too_slow_faster_ones_come_next(study, monkeypatch):
    choices = runs_of(study)[0].choices
    predicted = [Cost(999, 500), Cost(999, 510), Cost(990, 520), Cost(980, 530)]
    chip = {0: Cost(1000, 1000), 999: Cost(1010, 600), 990: Cost(1001, 620)}
    monkeypatch.setattr(tuner, "count_cycles", lambda first: chip[first])
    monkeypatch.setattr(tuner, "_program", lambda study, bests: bests[0].cost.first if bests else 0)
    bests = [[RatedChoices(choices=choices, cost=cost)] for cost in predicted]
    found = tuner._measure(study, bests, 2, 0, lambda text: None)
    assert found.winner.after == found.after == Cost(1001, 620)


def test_passes_that_change_the_program_are_left_out_in_turn():
    """Others are not tried: their programs are equal."""
    chain = Chain((1, 12, 12, 8)).convolve(8).convolve(8).convolve(8).add().look_up()
    graph, config = chain.graph(), load_config("reference")

    def program(*left_out):
        options = CompileOptions(tuned=False, left_out=frozenset(left_out))
        return matloom.compile(graph, config, options, check="none").to_bytes()

    names = [each.__name__ for each in STAGE_PASSES]
    changing = [name for name in names if program(name) != program()]
    notes = list[str]()
    tuner._choose_fusion(new_study(graph, config, CompileOptions(tuned=False)), notes.append)
    assert 0 < len(changing) < len(names)
    assert notes == [f"without {name}" for name in changing]


def test_choices_whose_program_is_wrong_are_left_out(study, tmp_path, monkeypatch):
    """Choices that no rule would make may show a fault of the compiler; its check finds it."""
    cost = runs_of(study)[0].cost
    check, seen = Compiled.check, []

    def refuses(candidate, mode):
        seen.append(mode)
        if len(seen) > 1:
            raise CheckError("a tile is wrong", "")
        return check(candidate, mode)

    monkeypatch.setattr(Compiled, "check", refuses)
    monkeypatch.setattr(tuner, "count_cycles", lambda program: cost)
    found = tune(study, tmp_path / "journal", Budget(trials=16, measured=2), SERIAL)
    assert found.winner is None
    assert len(seen) > 1
    found = tune(study, tmp_path / "journal", Budget(trials=16, measured=0), SERIAL)
    assert found.winner is None
    assert found.after == found.before == cost


def test_digests_differ_with_all_that_choices_depend_on(study):
    graph, config = frontend.load(NETWORK), load_config("nano")
    number = next(at for at, each in graph.tensors.items() if each.data is not None)
    weights = replace(graph.tensors[number], data=graph.tensors[number].data + 1)
    other = replace(graph, tensors={**graph.tensors, number: weights})
    found = {
        new_study(other, config, CompileOptions()).digest,
        new_study(graph, load_config("small"), CompileOptions()).digest,
        new_study(graph, config, CompileOptions(), {"*": "i8xi4"}).digest,
        new_study(frontend.load(NETWORK), config, CompileOptions()).digest,
    }
    assert len(found) == 4
    assert study.digest in found
    assert json.loads(study.precision) is None
    assert studies.key_of(Trial(study=study, run=0, choices=runs_of(study)[0].choices))
