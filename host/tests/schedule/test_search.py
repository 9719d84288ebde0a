"""The search for a schedule: every candidate is recorded, and failures are values."""

import gc
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, Job, run_phases
from matloom.compiler.describe import STOPS
from matloom.data.digits import NETWORK
from matloom.data.matrix_products import product_graph
from matloom.schedule import (
    DoesNotFit,
    Scheduled,
    pipeline,
    residency,
    schedule_segment,
    search,
    tuning,
)
from matloom.schedule.cache import Cache
from matloom.schedule.choices import candidates
from matloom.schedule.choices.policies import first_params
from matloom.schedule.choices.residency import repeat_params
from matloom.schedule.distinct import skip_repeated_tilings
from matloom.schedule.params import Candidate, WeightsLifetime
from matloom.schedule.pipeline import STEPS, evaluate, make_plan
from support.mobilenet import mobilenet


@pytest.fixture
def segment():
    """Return the only segment of the digits network."""
    job = Job(config=PRESETS["small"], options=CompileOptions())
    (run, _host) = run_phases(NETWORK, job, "bind").values["bind"].runs
    return run.segment


def scheduled(segment, config, options=None):
    machine = replace(segment.machine, config=config)
    segment = replace(segment, machine=machine)
    return schedule_segment(segment, options or CompileOptions())


def test_each_decision_has_one_candidate_chosen_and_a_reason_for_all_others(segment):
    found = scheduled(segment, PRESETS["small"], CompileOptions(effort=2))
    assert isinstance(found, Scheduled)
    starts = [each for each in found.tried if each.decision == "start"]
    assert len(starts) == len(search.candidates(segment, effort=2))
    chosen = [each for each in starts if each.outcome == "chosen"]
    assert len(chosen) == 1
    assert chosen[0].cycles == min(each.cycles for each in starts if each.cycles is not None)
    assert all(each.outcome for each in found.tried)


def test_misfits_are_returned(segment):
    small = PRESETS["small"]
    tiny = replace(small, spad_bytes=small.spad_banks * 16 * small.line_bytes)
    machine = replace(segment.machine, config=tiny)
    # No tensor may leave the chip, where there is no room for two of them.
    wide = replace(segment, machine=machine, on_chip=frozenset(segment.sizes))
    wide = replace(wide, sizes=dict.fromkeys(segment.sizes, tiny.spad_bytes // 2 + 1))
    found = scheduled(wide, tiny)
    assert isinstance(found, DoesNotFit)
    assert "bytes of scratchpad for tensor next to its other buffers" in found.reason


def test_stages_that_failed_are_tried_without_the_rest(monkeypatch):
    config = replace(PRESETS["nano"], spad_bytes=4096)
    job = Job(config=config, options=CompileOptions())
    segment = run_phases(mobilenet(30, 16), job, "bind").values["bind"].runs[0].segment
    params, tried = first_params(segment, Candidate()), []

    def noted(part, choices, cache):
        tried.append((len(part.stages), choices))
        return make_plan(part, choices, cache)

    monkeypatch.setattr(pipeline, "make_plan", noted)
    whole = evaluate(segment, params)
    stages = len(segment.stages)
    assert {count for count, _choices in tried} == {stages}
    # One tensor exceeds the scratchpad: what packs the others closer is not tried first.
    (_first_tile, closer), (_second, spilled), *_others = tried
    assert closer.avoid_conflicts
    assert not closer.spilled
    assert spilled.in_place
    assert spilled.spilled
    plans = len(tried)
    tried.clear()
    monkeypatch.setattr(tuning, "MANY_SLOTS", 20)
    parts = evaluate(segment, params)
    assert isinstance(whole, Scheduled)
    assert isinstance(parts, Scheduled)
    assert parts.instructions == whole.instructions
    few = [count for count, _choices in tried if count < stages]
    assert few
    assert len(tried) - len(few) < plans


def test_a_candidate_that_does_not_fit_is_dropped_with_its_reason(segment, monkeypatch):
    evaluate, reason = search.evaluate, "stage x needs 9 bytes"

    def some(segment, params, cache):
        if params.start.tiles == 2 and len(segment.stages) == 3:
            return DoesNotFit(reason=reason)
        return evaluate(segment, params, cache)

    monkeypatch.setattr(search, "evaluate", some)
    found = scheduled(segment, PRESETS["small"])
    assert isinstance(found, Scheduled)
    (dropped,) = (each for each in found.tried if each.outcome == reason)
    assert (dropped.decision, dropped.cycles) == ("start, by 3 stages", None)


def test_starts_with_one_plan_are_emitted_once(segment, monkeypatch):
    predict, predicted = pipeline.predict, []

    def same(segment, _candidate):
        return first_params(segment, Candidate())

    def noted(instructions, machine, *, costs):
        predicted.append(instructions)
        return predict(instructions, machine, costs=costs)

    monkeypatch.setattr(search, "first_params", same)
    monkeypatch.setattr(pipeline, "predict", noted)
    found = scheduled(segment, PRESETS["small"], CompileOptions(resident=False))
    assert isinstance(found, Scheduled)
    starts = [each.outcome for each in found.tried if each.decision == "start, by 3 stages"]
    assert starts[0] == "chosen"
    assert set(starts[1:]) == {"the same plan as at least 4 tiles"}
    # The second that is predicted is all of the segment, of the same instructions as ever.
    alone = scheduled(segment, PRESETS["small"], CompileOptions(resident=False, effort=0))
    assert predicted[1] == alone.instructions


def test_other_processes_find_the_same(segment):
    """The `map` of a pool gives the same bytes and the same reasons as the built-in one."""
    options = CompileOptions(effort=2, resident=True)
    here = scheduled(segment, PRESETS["small"], options)
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
        there = schedule_segment(segment, options, may_pin=True, map_function=pool.map)
    assert here.repeat is not None
    assert (here.instructions, here.tried) == (there.instructions, there.tried)
    assert here.repeat.instructions == there.repeat.instructions
    assert bytes(here.image) == bytes(there.image)


def test_a_candidate_depends_only_on_its_arguments(segment):
    """Evaluated in another process, with a cache or without, the result is the same."""
    params = first_params(segment, Candidate(tiles=3))
    here = evaluate(segment, params)
    task = pickle.dumps((segment, params))
    script = (
        "import pickle, sys; from matloom.schedule.pipeline import evaluate; "
        "found = evaluate(*pickle.load(sys.stdin.buffer)); "
        "pickle.dump((found.instructions, bytes(found.image)), sys.stdout.buffer)"
    )
    done = subprocess.run([sys.executable, "-c", script], input=task, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert pickle.loads(done.stdout) == (here.instructions, bytes(here.image))
    cache = Cache()
    for _ in range(2):
        assert evaluate(segment, params, cache).instructions == here.instructions
    assert pickle.loads(pickle.dumps(cache)).plan(None) is None


def test_steps_have_the_names_at_which_one_can_stop():
    names = [step.__name__ for step in STEPS]
    assert names == ["tile", "order", "assign_buffers", "prefetch", "allocate", "emit"]
    assert [each for each in STOPS if each in names] == names


def test_a_schedule_leaves_no_cycles_to_the_collector(segment):
    scheduled(segment, PRESETS["small"])  # What is made once, at first use, may stay or go.
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
    """Return the segment of a matrix product, and its configuration, nano."""
    job = Job(config=PRESETS["nano"], options=CompileOptions())
    (run,) = run_phases(product_graph(rows, inner, outputs), job, "bind").values["bind"].runs
    return run.segment, job.config


def test_operands_of_fewer_bytes_are_reloaded(monkeypatch):
    # 100 KB of input, 18 KB of weights in five chunks or more: weights, for each of eight tiles.
    segment, _config = product_segment(1000, 100, 180)
    plan = evaluate(segment, first_params(segment, Candidate())).plan
    assert plan.params.limits[0].weights is WeightsLifetime.STREAMED
    # A few rows: the input stays while all weights pass.
    segment, _config = product_segment(8, 100, 2000)
    plan = evaluate(segment, first_params(segment, Candidate())).plan
    assert plan.params.limits[0].weights is WeightsLifetime.ONCE
    # Both are tried where stages are few, the estimate alone where they are many.
    assert {each.streamed for each in candidates.candidates(segment)} == {False, True}
    monkeypatch.setattr(tuning, "FEW_STAGES", 0)
    assert {each.streamed for each in candidates.candidates(segment)} == {None}
    tried = {each.streamed for each in candidates.candidates(segment, effort=2)}
    assert tried == {None, False, True}


def test_the_estimate_differs_from_the_exact_answer():
    # 512 x 512 x 512 at reference: weights once take an eighth less than weights for each tile.
    weights = []
    for streamed in (False, None):
        job = Job(config=PRESETS["reference"], options=CompileOptions())
        (run,) = run_phases(product_graph(512, 512, 512), job, "bind").values["bind"].runs
        start = Candidate(streamed=streamed)
        plan = evaluate(run.segment, first_params(run.segment, start)).plan
        weights.append(plan.params.limits[0].weights)
    assert weights == [WeightsLifetime.ONCE, WeightsLifetime.STREAMED]
    found = scheduled(run.segment, PRESETS["reference"])
    assert found.plan.params.limits[0].weights is WeightsLifetime.ONCE


def test_policies_that_make_the_same_tiles_have_one_plan(monkeypatch):
    """A product has equal tiles with all three policies, the digits with two."""
    asked = []

    def noted(segment, first):
        asked.append((segment, repeat_params(segment, first)))
        return asked[-1][1]

    monkeypatch.setattr(residency, "repeat_params", noted)
    job = Job(config=PRESETS["reference"], options=CompileOptions())
    (run, _host) = run_phases(NETWORK, job, "bind").values["bind"].runs
    for segment, config in (product_segment(8, 16, 4), (run.segment, job.config)):
        scheduled(segment, config, CompileOptions(resident=True))
    counts = []
    for segment, space in asked:
        cache = Cache()
        different = skip_repeated_tilings(segment, space, cache)
        plans = [make_plan(segment, each, cache).order.slots for each in different]
        every = [make_plan(segment, each, cache).order.slots for each in space]
        assert [each for at, each in enumerate(every) if each not in every[:at]] == plans
        counts.append((len(space), len(plans)))
    assert counts == [(3, 1), (3, 2)]
