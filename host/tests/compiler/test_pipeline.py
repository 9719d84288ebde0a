"""The phases of the compiler: their values can be obtained, printed and distinguished."""

import dataclasses
import gc
import inspect
from pathlib import Path

import pytest

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.compiler import (
    PHASES,
    CompileError,
    CompileOptions,
    Job,
    compile_unchecked,
    pipeline,
    run_phases,
    schedule_runs,
    values,
)
from matloom.compiler.describe import STOPS, describe
from matloom.data.digits import NETWORK
from matloom.ir.graph import Graph
from matloom.schedule import DoesNotFit, schedule_segment, search

SMALL = Job(config=PRESETS["small"], options=CompileOptions())


def test_a_whole_path_in_one_file():
    assert len(Path(inspect.getfile(pipeline)).read_text().splitlines()) < 200


def test_every_phase_has_a_value_that_cannot_be_changed():
    run = run_phases(NETWORK, SMALL)
    assert list(run.values) == [phase.name for phase in PHASES]
    for name, value in run.values.items():
        first = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, first, None)
        assert value is not None, name
    assert isinstance(run.values["read"], Graph)
    assert (
        run.values["assemble"].program
        == compile_unchecked(frontend.load(NETWORK), **given()).program
    )


def given():
    return {"config": SMALL.config, "options": SMALL.options}


def test_a_run_ends_with_the_phase_that_is_asked_for():
    assert list(run_phases(NETWORK, SMALL, "passes").values) == ["read", "formats", "passes"]


def test_every_phase_can_be_looked_at():
    assert {phase for phase, _lines in STOPS.values()} == {phase.name for phase in PHASES}


@pytest.mark.parametrize(
    ("stop", "sentence"),
    [
        ("read", "input %0:int8[1x8x8x1]{0.00392157, -128}"),
        ("select", "CONV_2D_0: stem = image; LoopNest of 3 steps, 2 output blocks"),
        ("rewrite", "ADD_3: joined = stem, outer; 3 POSTs over 1024 bytes"),
        ("bind", "reads image: 64 bytes from INPUT 0"),
        ("search", "start, by 3 stages: at least 4 tiles"),
        ("tile", "x 0..8 blocks 0..2 steps 0..3 chunk 0; "),
        ("order", "0: CONV_2D_0 tile 0"),
        ("allocate", "tensor stem of CONV_2D_0, slots 0.."),
        ("emit", "EXEC  after load-"),
        ("assemble", "step 0: engine,"),
    ],
)
def test_output_of_the_verb(stop, sentence):
    assert sentence in describe(NETWORK, SMALL, stop)


def test_an_unknown_phase_is_refused_with_the_names_of_all():
    with pytest.raises(ValueError, match=r"stop-after must be one of read, .*'link'") as no:
        describe(NETWORK, SMALL, "link")
    assert all(name in str(no.value) for name in STOPS)


def test_failed_attempts_are_printed(monkeypatch):
    def schedule(segment, options, **more):
        if len(segment.stages) > 1 and not options.plain:
            return DoesNotFit(reason="the stages need more than there is")
        return schedule_segment(segment, options, **more)

    monkeypatch.setattr(schedule_runs, "schedule_segment", schedule)
    (retry,) = compile_unchecked(frontend.load(NETWORK), **given()).retries
    assert (retry.phase, retry.remedy) == ("select", "one stage after another")
    line = "; dropped: the stages need more than there is; next: one stage after another"
    assert describe(NETWORK, SMALL, "search").splitlines()[0] == line


def test_impossible_schedules_raise_the_last_reason(monkeypatch):
    def schedule(segment, *rest, **more):
        if len(segment.stages) > 1:
            return DoesNotFit(reason="the stages need more than there is")
        return schedule_segment(segment, *rest, **more)

    monkeypatch.setattr(schedule_runs, "schedule_segment", schedule)
    with pytest.raises(
        CompileError,
        match=r"^the stages need more than there is\nhint: take an engine that has room",
    ):
        compile_unchecked(frontend.load(NETWORK), **given())


def test_garbage_collection_pauses_while_compiling_and_checking(monkeypatch):
    seen = []

    def fails(*_args, **_kwargs):
        seen.append(gc.isenabled())
        raise ArithmeticError

    made = compile_unchecked(frontend.load(NETWORK), SMALL.config, SMALL.options)
    monkeypatch.setattr(search, "candidates", fails)
    monkeypatch.setattr(values, "check_program", fails)
    with pytest.raises(ArithmeticError):
        compile_unchecked(frontend.load(NETWORK), SMALL.config, SMALL.options)
    with pytest.raises(ArithmeticError):
        made.check()
    assert seen == [False, False]
    assert gc.isenabled()
