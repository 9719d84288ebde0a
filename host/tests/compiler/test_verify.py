"""MATLOOM_VERIFY=1 checks the value of every phase: each rule notices a violation."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from matloom import frontend
from matloom.arch.config import PRESETS, load_config
from matloom.compiler import PHASES, CompileOptions, Job, compile_unchecked, rewrite, run_phases
from matloom.compiler.verify import CHECKS, PhaseError, verify_value
from matloom.data.digits import NETWORK
from matloom.data.matrix_products import product_graph
from matloom.data.streaming import streaming_network
from matloom.program.instruction_table import InstructionTable, unpack_all
from matloom.program.verify import VerifyError
from matloom.schedule.check import buffers_of, check_addresses, check_order, check_tiles
from matloom.schedule.plan import Buffer
from matloom.select.check import check_stages
from matloom.select.constant import ConstantWeights
from matloom.select.layout.dense import Dense
from matloom.select.stage import ArrayStage, VectorStage
from matloom.verification.random_layers import random_layer
from matloom.verification.random_operators import KINDS, RandomOperators

SMALL = PRESETS["small"]
EVERYTHING = load_config("small+weight_rows=2+tables=1+products=1+i8xi4+i4xi4+i16xi8")
JOB = Job(config=SMALL, options=CompileOptions(resident=True))


@pytest.fixture(scope="module")
def values():
    """Return the values of all phases for the network of digits."""
    return run_phases(NETWORK, JOB).values


@pytest.fixture(scope="module")
def plan(values):
    """Return the plan of the network's only run on the engine."""
    return values["schedule"].runs[0].scheduled.plan


def changed(items, at, item):
    """Return a tuple with one item replaced, or removed if it is None."""
    return (*items[:at], *(() if item is None else (item,)), *items[at + 1 :])


def test_every_phase_has_a_check(values):
    assert list(CHECKS) == [phase.name for phase in PHASES]
    for name, value in values.items():
        verify_value(name, value, JOB)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("config", [*PRESETS.values(), EVERYTHING], ids=[*PRESETS, "everything"])
def test_layers_in_random_tiles_keep_every_rule(config, monkeypatch, seed):
    monkeypatch.setenv("MATLOOM_VERIFY", "1")
    for number in range(seed, seed + 8):
        graph, _ = random_layer(number, config)
        for options in (CompileOptions(), CompileOptions(tiling_seed=number)):
            compile_unchecked(graph, config, options)


@pytest.mark.parametrize("op", KINDS)
def test_operators_keep_every_rule(op, monkeypatch, seed):
    monkeypatch.setenv("MATLOOM_VERIFY", "1")
    draw = RandomOperators([seed, *op.encode()], "int8")
    compile_unchecked(draw.make(op), EVERYTHING, CompileOptions())


def test_variables_and_weights_that_stay_keep_every_rule(monkeypatch):
    monkeypatch.setenv("MATLOOM_VERIFY", "1")
    compile_unchecked(streaming_network(0), PRESETS["nano"], CompileOptions())
    compile_unchecked(product_graph(33, 40, 24), PRESETS["nano"], CompileOptions(resident=True))


def test_a_graph_that_contradicts_itself(values):
    graph = replace(values["read"], outputs=(99,))
    for phase in ("read", "formats"):
        with pytest.raises(ValueError, match=f"{phase}: "):
            verify_value(phase, graph, JOB)
    prepared = values["passes"]
    same = replace(prepared, names=dict.fromkeys(prepared.names, "x"))
    with pytest.raises(PhaseError, match="names of tensors must differ"):
        verify_value("passes", same, JOB)


def test_an_operator_in_no_run_or_too_early(values):
    selected = values["select"]
    engine, host = selected.parts.runs
    for runs, sentence in (
        ((engine,), "1 are in none"),
        ((host, engine), "SOFTMAX must run after"),
    ):
        wrong = replace(selected, parts=replace(selected.parts, runs=runs))
        with pytest.raises(PhaseError, match=sentence):
            verify_value("select", wrong, JOB)


def stages(values):
    return [stage for group in values["rewrite"].runs[0].stages for stage in group]


def misshapen(stage):
    """Return invalid variants of a convolution stage, each with its message."""
    region = stage.regions[0]
    nest, tiles = stage.loop_nest, stage.weights.tiles
    more = replace(stage.grid, position_bytes=stage.grid.position_bytes + stage.grid.block_bytes)
    return (
        (replace(stage, weights=ConstantWeights(tiles=tiles[:, :-1])), "have weights of shape"),
        (replace(stage, params=stage.params[:-1]), "have parameters for each block"),
        (replace(stage, regions=(region, region)), "have each output in one region"),
        (replace(stage, regions=(replace(region, end_row=region.end_row - 1),)), "in one region"),
        (replace(stage, output_layout=Dense(grid=more)), r"have weights of shape \(3, "),
        (replace(stage, mode="bf16"), "have a mode of the engine"),
        (replace(stage, inputs=("nothing",)), "read a tensor that is made before"),
        (replace(stage, table=np.zeros(256, np.uint8)), "have no table in this configuration"),
        (replace(stage, loop_nest=replace(nest, x_step=1 << 20)), "have x_step up to"),
    )


def test_stages_that_are_none(values):
    every = stages(values)
    assert isinstance(every[0], ArrayStage)
    check_stages(every, {"image"}, SMALL, "a pass")
    for wrong, sentence in misshapen(every[0]):
        with pytest.raises(PhaseError, match=f"a pass: CONV_2D_0 must .*{sentence}"):
            check_stages([wrong, *every[1:]], {"image"}, SMALL, "a pass")
    with pytest.raises(PhaseError, match="write no tensor that is complete"):
        check_stages([every[0], *every], {"image"}, SMALL, "a pass")
    (sum_,) = (stage for stage in every if isinstance(stage, VectorStage))
    for wrong, sentence in (
        (replace(sum_, period=7), "have a period that divides its bytes"),
        (replace(sum_, posts=((2, {}),)), "have POSTs that read its inputs"),
        (replace(sum_, size=0), "make whole elements"),
    ):
        with pytest.raises(PhaseError, match=sentence):
            check_stages([wrong], sum_.inputs, SMALL, "a pass")
    short = replace(sum_, table=np.zeros(255, np.uint8))
    with pytest.raises(PhaseError, match="have a table of 256 bytes"):
        check_stages([short], sum_.inputs, EVERYTHING, "a pass")


def test_a_stage_pass_that_breaks_a_rule_is_named(monkeypatch):
    def forgetful(staged):
        return staged.with_stages(group for group in staged.stages[1:])

    monkeypatch.setattr(rewrite, "STAGE_PASSES", (forgetful,))
    monkeypatch.setenv("MATLOOM_VERIFY", "1")
    with pytest.raises(PhaseError, match=r"^forgetful: CONV_2D_1 must read a tensor"):
        run_phases(frontend.load(NETWORK), JOB, "rewrite")
    monkeypatch.delenv("MATLOOM_VERIFY")
    run_phases(frontend.load(NETWORK), JOB, "rewrite")


def test_tensors_over_each_other_in_external_memory(values):
    bound = values["bind"]
    run = bound.runs[0]
    small = replace(bound, output_bytes=9)
    with pytest.raises(PhaseError, match="logits must end in its 9 bytes"):
        verify_value("bind", small, JOB)
    second = replace(run.outputs[0], name="mean", offset=run.outputs[0].offset + 1)
    wrong = replace(run, outputs=(*run.outputs, second))
    with pytest.raises(PhaseError, match="tensors must not overlap at 1"):
        verify_value("bind", replace(bound, runs=(wrong, bound.runs[1])), JOB)


def test_tiles_that_do_not_make_each_output_once(plan):
    for tiling in plan.tilings:
        tiles = tuple(tiling.tiles)
        check_tiles(tiling.stage, tiles)
        for wrong in (tiles[1:], tiles[:-1], (*tiles, tiles[0]), (tiles[-1], *tiles)):
            with pytest.raises(PhaseError, match=f"^tile: .*{tiling.stage.name}"):
                check_tiles(tiling.stage, wrong)


def test_a_tile_that_is_too_large_or_too_small(plan):
    convolution, sum_ = plan.tilings[1], plan.tilings[3]
    tile = convolution.tiles[0]
    for wrong in (
        tile._replace(end_row=tile.end_row - 1),
        tile._replace(end_row=tile.end_row + 1),
        tile._replace(end_x=tile.end_x - 1),
        tile._replace(end_block=tile.end_block - 1),
        tile._replace(first_step=1),
        tile._replace(end_step=tile.end_step - 1),
    ):
        with pytest.raises(PhaseError, match=r"^tile: "):
            check_tiles(convolution.stage, changed(tuple(convolution.tiles), 0, wrong))
    tile = sum_.tiles[0]
    for wrong in (tile._replace(end=tile.end - 1), tile._replace(end=tile.end + 1)):
        with pytest.raises(PhaseError, match=r"^tile: "):
            check_tiles(sum_.stage, changed(tuple(sum_.tiles), 0, wrong))


def test_slots_that_are_missing_or_out_of_order(plan):
    check_order(plan)
    slots, spans = tuple(plan.slots), list(plan.order.spans)
    for wrong in (slots[1:], slots[:-1], (*slots, slots[-1]), (slots[1], slots[0], *slots[2:])):
        order = replace(plan.order, slots=list(wrong))
        with pytest.raises(PhaseError, match=r"^order: "):
            check_order(SimpleNamespace(slots=order.slots, order=order, tilings=plan.tilings))
    order = replace(plan.order, spans=[(spans[0][0], spans[0][1] + 1), *spans[1:]])
    with pytest.raises(PhaseError, match=r"^order: CONV_2D_0 must have slots"):
        check_order(SimpleNamespace(slots=plan.slots, order=order, tilings=plan.tilings))


def placed(address, first, last, size=16, **more):
    return ("a buffer", Buffer(size, first, last, 0, address=address, **more))


@pytest.mark.parametrize(
    ("buffers", "sentence"),
    [
        ([placed(0, 0, 3), placed(15, 3, 5)], "from slot 3 on must not lie over"),
        ([placed(0, 0, 3), placed(16, 0, 3)], None),
        ([placed(0, 0, 2), placed(0, 3, 5)], None),
        ([placed(0, 2, 9), placed(8, 0, 2)], "must not lie over"),
        ([placed(-1, 0, 1)], "must lie in the"),
        ([placed(SMALL.spad_bytes - 15, 0, 1)], "must lie in the"),
        ([placed(0, 2, 1)], "must lie in the"),
        ([placed(8, 0, 1, boundary=16)], "must begin at a multiple of 16"),
    ],
)
def test_addresses(buffers, sentence):
    if sentence is None:
        check_addresses(buffers, SMALL)
    else:
        with pytest.raises(PhaseError, match=f"^allocate: a buffer .*{sentence}"):
            check_addresses(buffers, SMALL)


def test_every_buffer_of_a_plan_is_looked_at(plan):
    assert {load.buffer for load in plan.loads} <= {buffer for _, buffer in buffers_of(plan)}


def test_a_program_with_a_hazard(values):
    """An EXEC that no longer waits for its LOAD."""
    made = values["assemble"]
    image = bytearray(made.program.image)
    step = made.program.steps[0]
    instructions = unpack_all(made.program.commands(step))
    free = (replace(each, values={**each.values, "wait_load": 0}) for each in instructions)
    packed = InstructionTable(list(free)).pack()
    image[step.command_offset : step.command_offset + len(packed)] = packed
    wrong = replace(made, program=replace(made.program, image=bytes(image)))
    with pytest.raises(VerifyError):
        verify_value("assemble", wrong, JOB)
