"""The effort of a search, and the estimate that stops it early."""

from dataclasses import replace

import numpy as np
import pytest

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Region
from matloom.arch.machine import Machine
from matloom.compiler import CompileOptions, Job, compile_network, run_phases
from matloom.cost.predict import predict
from matloom.data.digits import NETWORK
from matloom.kernels.interpreter import interpret
from matloom.runtime import load
from matloom.schedule import pipeline, search, tuning
from matloom.schedule.cache import Cache
from matloom.schedule.options import EFFORTS
from matloom.schedule.params import TilingParams, WeightsLifetime
from matloom.schedule.plan import ScheduleParams


def test_the_effort_is_one_of_three():
    with pytest.raises(ValueError, match=r"effort must be one of \[0, 1, 2\], not 3"):
        CompileOptions(effort=3)


@pytest.mark.parametrize("config", ["nano", "reference"])
def test_more_effort_makes_no_slower_program(config):
    graph = frontend.load(NETWORK)
    shape = graph.tensors[graph.inputs[0]].shape
    given = np.random.default_rng(4).integers(-128, 128, shape).astype(np.int8)
    expected = interpret(graph, {graph.inputs[0]: given})[graph.outputs[0]]
    cycles = []
    for effort in EFFORTS:
        program = compile_network(graph, config, CompileOptions(effort=effort), check="none")
        cycles.append(program.predicted_cycles)
        named = {graph.tensors[graph.inputs[0]].name: given}
        (made,) = load(program, device="model").run(named).values()
        assert np.array_equal(made, expected)
    # Weights that stay may cost the first call half a percent.
    assert cycles[1] <= 1.005 * cycles[0]
    assert cycles[2] <= 1.005 * cycles[1]


def test_constants_that_are_there_take_no_time_to_load():
    config = PRESETS["small"]

    def load_of(region, address):
        return Instruction(
            Opcode.LOAD,
            {"region": region, "spad_addr": address, "row_bytes": 4096, "rows": 1, "planes": 1},
        )

    tensor, end = load_of(Region.INPUT, 0), Instruction(Opcode.END, {})
    with_weights = [load_of(Region.PROGRAM, 8192), tensor, end]
    alone = predict([tensor, end], Machine(config=config)).cycles
    assert predict(with_weights, Machine(config=config), resident=True).cycles == alone
    assert (
        predict(with_weights, Machine(config=config)).cycles > alone + 4096 // config.bus_bytes - 1
    )


def _digits_on_nano(seed=5):
    """Return the digits' results on nano, and the expected ones."""
    graph = frontend.load(NETWORK)
    (number,) = graph.inputs
    shape = graph.tensors[number].shape
    given = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
    program = compile_network(graph, "nano", check="none")
    (made,) = load(program, device="model").run({graph.tensors[number].name: given}).values()
    return made, interpret(graph, {number: given})[graph.outputs[0]]


def test_results_below_loaded_data(monkeypatch):
    first_params, placed = search.first_params, []

    def tight(segment, candidate):
        policy = first_params(segment, candidate)
        made = frozenset(stage.output for stage in segment.stages)
        inner = frozenset(made - segment.results.keys() - segment.on_chip)
        placed.append(inner)
        return replace(policy, spilled=inner, avoid_conflicts=False, results_first=True)

    monkeypatch.setattr(search, "first_params", tight)
    made, expected = _digits_on_nano()
    assert any(placed)
    assert np.array_equal(made, expected)


def test_a_tile_that_cannot_fit_is_found_before_a_plan_is_made(monkeypatch):
    seen = []
    oversized = pipeline.oversized_stages

    def noted(segment, plan):
        seen.append(segment)
        return oversized(segment, plan)

    monkeypatch.setattr(tuning, "MANY_SLOTS", 0)
    monkeypatch.setattr(pipeline, "oversized_stages", noted)
    made, expected = _digits_on_nano()
    assert seen
    assert np.array_equal(made, expected)
    segment = seen[-1]
    plan = pipeline.make_plan(segment, ScheduleParams(limits=_limits(segment)), Cache())
    tiny = replace(
        PRESETS["nano"],
        spad_bytes=max(tensor_buffer.size for tensor_buffer in plan.tensor_buffers.values()),
    )
    full = oversized(replace(segment, machine=replace(segment.machine, config=tiny)), plan)[0]
    assert (full.stage, full.kind) == (0, "weights")


def test_choices_that_make_the_same_tiles_have_the_same_plan():
    job = Job(config=PRESETS["nano"], options=CompileOptions())
    (run, _host) = run_phases(NETWORK, job, "bind").values["bind"].runs
    segment, cache = run.segment, Cache()

    def plan(**limits):
        limit = TilingParams(weights=WeightsLifetime.RESIDENT, **limits)
        params = ScheduleParams(limits=(limit,) * len(segment.stages))
        return pipeline.make_plan(segment, params, cache)

    # So few bytes that the choice of two or three tiles does not matter.
    one, other, wide = plan(tiles=2, tile_bytes=200), plan(tiles=3, tile_bytes=200), plan(tiles=2)
    assert one is other
    assert [tiling.tiles for tiling in wide.tilings] != [tiling.tiles for tiling in one.tilings]


def _limits(segment):
    return tuple(TilingParams(weights=WeightsLifetime.RESIDENT) for _stage in segment.stages)
