"""The search for a schedule: every candidate is on record, and what does not fit is a value."""

import gc
from dataclasses import replace

import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, Job, run_phases
from matloom.data.digits import NETWORK
from matloom.data.matrix_products import product_graph
from matloom.schedule import DoesNotFit, Scheduled, candidates, schedule_segment, search
from matloom.schedule.constants import Image
from matloom.schedule.fit import fit
from matloom.schedule.params import Candidate, Weights
from matloom.schedule.planner import different_plans, make_plan
from matloom.schedule.policies import repeat_policies


@pytest.fixture
def segment():
    """Return the one segment of the network of digits."""
    job = Job(config=PRESETS["small"], options=CompileOptions())
    (run, _host) = run_phases(NETWORK, job, "bind").values["bind"].runs
    return run.segment


def scheduled(segment, config, options=None):
    more = {"arena_start": 0, "output_bytes": 64}
    return schedule_segment(segment, config, options or CompileOptions(), Image(), **more)


def test_each_decision_has_one_candidate_chosen_and_a_reason_for_all_others(segment):
    found = scheduled(segment, PRESETS["small"], CompileOptions(effort=2))
    assert isinstance(found, Scheduled)
    starts = [each for each in found.tried if each.decision == "start"]
    assert len(starts) == len(search.candidates(segment, PRESETS["small"], effort=2))
    chosen = [each for each in starts if each.outcome == "chosen"]
    assert len(chosen) == 1
    assert chosen[0].cycles == min(each.cycles for each in starts if each.cycles is not None)
    assert all(each.outcome for each in found.tried)


def test_what_does_not_fit_is_returned(segment):
    small = PRESETS["small"]
    tiny = replace(small, spad_bytes=small.spad_banks * 16 * small.line_bytes)
    machine = replace(segment.machine, config=tiny)
    # No tensor may leave the chip, where there is no room for two of them.
    wide = replace(segment, machine=machine, on_chip=frozenset(segment.sizes))
    wide = replace(wide, sizes=dict.fromkeys(segment.sizes, tiny.spad_bytes // 2 + 1))
    found = scheduled(wide, tiny)
    assert isinstance(found, DoesNotFit)
    assert "bytes of scratchpad for tensor next to its other buffers" in found.reason


def test_a_candidate_that_does_not_fit_is_dropped_with_its_reason(segment, monkeypatch):
    fit, reason = search.fit, "stage x needs 9 bytes"

    def some(segment, config, options, candidate):
        if candidate.tiles == 2:
            return DoesNotFit(reason=reason)
        return fit(segment, config, options, candidate)

    monkeypatch.setattr(search, "fit", some)
    found = scheduled(segment, PRESETS["small"])
    assert isinstance(found, Scheduled)
    (dropped,) = (each for each in found.tried if each.outcome == reason)
    assert (dropped.decision, dropped.cycles) == ("start, by 3 stages", None)


def test_a_start_with_one_plan_is_chosen_without_its_cycles(segment, monkeypatch):
    small, fit, predict, predicted = PRESETS["small"], search.fit, search.predict, []

    def same(segment, config, options, _candidate):
        return fit(segment, config, options, search.Candidate())

    def noted(instructions, machine, **kwargs):
        predicted.append(instructions)
        return predict(instructions, machine, **kwargs)

    monkeypatch.setattr(search, "fit", same)
    monkeypatch.setattr(search, "predict", noted)
    found = scheduled(segment, small, CompileOptions(resident=False))
    assert isinstance(found, Scheduled)
    starts = [each for each in found.tried if each.decision == "start, by 3 stages"]
    assert [each.outcome == "chosen" for each in starts] == [True] + [False] * (len(starts) - 1)
    assert all(each.cycles is None for each in starts)
    # The first that is predicted is all of the segment, of the same instructions as ever.
    alone = scheduled(segment, small, CompileOptions(resident=False, effort=0))
    assert predicted[0] == alone.instructions


def test_a_schedule_leaves_no_cycles_to_the_collector(segment):
    gc.collect()
    gc.disable()
    try:
        found = scheduled(segment, PRESETS["small"])
        assert not gc.isenabled()
        del found
        assert gc.collect() == 0
    finally:
        gc.enable()


def product_segment(rows, inner, outputs):
    """Return the stage of a matrix product at nano, and nano."""
    job = Job(config=PRESETS["nano"], options=CompileOptions())
    (run,) = run_phases(product_graph(rows, inner, outputs), job, "bind").values["bind"].runs
    return run.segment, job.config


def test_what_loads_fewer_bytes_comes_again(monkeypatch):
    # 100 KB of input, 18 KB of weights in five chunks or more: weights, for each of eight tiles.
    segment, config = product_segment(1000, 100, 180)
    plan = fit(segment, config, CompileOptions(), Candidate())
    assert plan.policy.limits[0].weights is Weights.STREAMED
    # A few rows: the input stays while all weights pass.
    segment, config = product_segment(8, 100, 2000)
    plan = fit(segment, config, CompileOptions(), Candidate())
    assert plan.policy.limits[0].weights is Weights.ONCE
    # Both are tried where stages are few, the estimate alone where they are many.
    assert {each.streamed for each in candidates.candidates(segment, config)} == {False, True}
    monkeypatch.setattr(candidates, "_FEW_STAGES", 0)
    assert {each.streamed for each in candidates.candidates(segment, config)} == {None}
    tried = {each.streamed for each in candidates.candidates(segment, config, effort=2)}
    assert tried == {None, False, True}


def test_an_estimate_alone_would_be_wrong():
    # 512 x 512 x 512 at reference: weights once take an eighth less than weights for each tile.
    weights = []
    for streamed in (False, None):
        job = Job(config=PRESETS["reference"], options=CompileOptions())
        (run,) = run_phases(product_graph(512, 512, 512), job, "bind").values["bind"].runs
        start = Candidate(streamed=streamed)
        plan = fit(run.segment, job.config, CompileOptions(), start)
        weights.append(plan.policy.limits[0].weights)
    assert weights == [Weights.ONCE, Weights.STREAMED]
    found = scheduled(run.segment, PRESETS["reference"])
    assert found.plan.policy.limits[0].weights is Weights.ONCE


def test_policies_that_make_the_same_tiles_have_one_plan(monkeypatch):
    """Tiles of a product are the same in all three ways; of digits, in two of them."""
    asked = []

    def noted(segment, first, config):
        asked.append((segment, repeat_policies(segment, first, config), config))
        return asked[-1][1]

    monkeypatch.setattr(search, "repeat_policies", noted)
    job = Job(config=PRESETS["reference"], options=CompileOptions())
    (run, _host) = run_phases(NETWORK, job, "bind").values["bind"].runs
    for segment, config in (product_segment(8, 16, 4), (run.segment, job.config)):
        scheduled(segment, config, CompileOptions(resident=True))
    counts = []
    for segment, policies, config in asked:
        plans = [each.order.slots for each in different_plans(segment, policies, config)]
        every = [make_plan(segment, each, config).order.slots for each in policies]
        assert [each for at, each in enumerate(every) if each not in every[:at]] == plans
        counts.append((len(policies), len(plans)))
    assert counts == [(3, 1), (3, 2)]
