"""Plans that gave up different banks try them again where POST and STORE wait for banks."""

from dataclasses import replace

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, Job, compile_network, run_phases
from matloom.schedule import tuning
from support.chain import Chain, exact_programs

#: Too small for two of the maps below.
SMALL = replace(PRESETS["reference"], spad_bytes=65536, spad_banks=4)


def test_banks_apart_are_exact_and_no_slower():
    graph = Chain((1, 40, 40, 8), seed=1).convolve(24).convolve(24, 3).convolve(8).graph()
    cycles = []
    for share in (1.0, 0.0):
        with tuning.override({"BANK_WAITS": share}):
            cycles.append(compile_network(graph, SMALL, CompileOptions()).predicted_cycles)
            exact_programs(graph, SMALL, (None,))
    assert cycles[1] <= cycles[0]


def test_a_long_plan_is_emitted_only_with_banks_apart():
    chain = Chain((1, 40, 40, 8), seed=1).convolve(24).convolve(24, 3).convolve(8).convolve(24)
    graph = chain.convolve(24, 3).graph()
    known = {}
    for slots in (1 << 20, 1):
        with tuning.override({"LONG_SLOTS": slots, "BANK_WAITS": 1.0}):
            job = Job(config=SMALL, options=CompileOptions(tuned=False))
            (run,) = run_phases(graph, job, "schedule").values["schedule"].runs
            exact_programs(graph, SMALL, (None,))
        known[slots] = run.scheduled.plan.params.avoid_conflicts
    assert known == {1 << 20: False, 1: True}


def test_a_very_long_plan_without_alternatives_is_emitted_only_once():
    chain = Chain((1, 40, 40, 8), seed=1).convolve(24).convolve(24, 3).convolve(8)
    graph = chain.convolve(64, 3).convolve(128, 3).graph()
    known = {}
    for slots in (1 << 20, 1):
        constants = {"VERY_LONG_SLOTS": slots, "LONG_SLOTS": 1, "BANK_WAITS": 1.0, "FEW_STAGES": 1}
        with tuning.override(constants):
            job = Job(config=SMALL, options=CompileOptions(tuned=False))
            (run,) = run_phases(graph, job, "schedule").values["schedule"].runs
            exact_programs(graph, SMALL, (None,))
        assert run.scheduled.plan.params.over_inputs
        # There is one start, so nothing is compared.
        assert not [each for each in run.scheduled.tried if each.decision.startswith("start")]
        known[slots] = run.scheduled.plan.params.avoid_conflicts
    assert known == {1 << 20: False, 1: True}
