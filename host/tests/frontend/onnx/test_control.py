"""Branches and loops of quantised operators are compiled; results equal ONNX Runtime's."""

import json

import numpy as np
import pytest

import matloom
from matloom.device.driver import Driver
from matloom.ir.graph import Op
from matloom.profile.page import to_html
from matloom.profile.profile import make_profile
from matloom.profile.trace import to_chrome
from matloom.tools.explain import explain

pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
control = pytest.importorskip("support.control_onnx")
NETWORKS, OPEN_LOOPS, SHAPE = control.NETWORKS, control.OPEN_LOOPS, control.SHAPE
inputs, loop = control.inputs, control.loop


def iterations_of(content, device, counts):
    """Compare a loop with ONNX Runtime for several counts; return the session's reports."""
    reports = []
    with matloom.load(content, device=device, config="nano", exact=True) as session:
        runtime = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        for seed, count in enumerate(counts):
            x = np.random.default_rng(seed).integers(-128, 128, SHAPE).astype(np.int8)
            given = {"x": x, "n": np.array(count), "p": np.array(seed > 0)}
            given = {value.name: given[value.name] for value in runtime.get_inputs()}
            (wanted,) = runtime.run(None, given)
            np.testing.assert_array_equal(session.run(given)["y"], wanted)
            reports.append(session.report())
        assert [step.kind for step in session.program.steps] == ["engine", "host", "engine"]
        return session.program, reports


@pytest.mark.parametrize(
    ("name", "device"),
    [
        *(("early end", "model"), ("value from outside", "fast")),
        *(
            pytest.param(name, device, marks=pytest.mark.slow)
            for device in ("model", "rtl")
            for name in OPEN_LOOPS
            if (name, device) != ("early end", "model")
        ),
    ],
)
def test_an_input_decides_how_many_turns_run_on_the_engine(name, device):
    program, reports = iterations_of(OPEN_LOOPS[name], device, (0, 1, 7, 2))
    (loop,) = (layer for layer in program.layers if layer.operator == "Loop")
    assert loop.reason.startswith("an input decides how many iterations there are")
    iterations = [report.loops[0].iterations for report in reports]
    assert iterations[0] == 0
    if name == "early end":
        assert iterations != [0, 1, 7, 2]
    else:
        assert iterations == [0, 1, 7, 2]


def test_values_of_a_counted_loop_stay_on_the_device():
    program, _ = iterations_of(OPEN_LOOPS["count"], "model", (3,))
    ((body,),) = matloom.Program.from_bytes(program.to_bytes()).loops.values()
    assert [variable.place is not None for variable in body.variables] == [True]
    assert [info.shape for info in (*body.inputs, *body.outputs)] == [(), (), ()]


@pytest.mark.parametrize("name", OPEN_LOOPS)
def test_no_iteration_transposes(name):
    program = matloom.compile(OPEN_LOOPS[name], "nano", exact=True, check="none")
    ((body,),) = program.loops.values()
    for each in (program, body):
        inner = each.layers[1:-1] if each is program else each.layers
        assert "TRANSPOSE" not in [layer.operator for layer in inner]


def measured(device, monkeypatch):
    """Return session, report and the counters of every run of the engine for five iterations."""
    runs, run = [], Driver.run
    with matloom.load(OPEN_LOOPS["count"], device=device, config="nano", exact=True) as session:
        monkeypatch.setattr(Driver, "run", lambda *given: runs.append(run(*given)) or runs[-1])
        session.run({"x": np.zeros(SHAPE, np.int8), "n": np.array(5)})
        monkeypatch.undo()
    return session, session.report(), runs


@pytest.mark.parametrize("device", ["model", pytest.param("rtl", marks=pytest.mark.slow)])
def test_reports_and_profiles_include_all_iterations(device, monkeypatch):
    session, report, runs = measured(device, monkeypatch)
    assert len(runs) == 2 + 5
    if device == "rtl":
        assert report.cycles == sum(each.cycles for each in runs)
        assert report.counters["read_beats"] == sum(each.values["read_beats"] for each in runs)
        assert abs(report.predicted_cycles - report.cycles) < 0.02 * report.cycles
    program = session.program
    ((body,),) = program.loops.values()
    iterations = body.predicted_cycles + 4 * body.repeat.predicted_cycles
    assert report.predicted_cycles == program.predicted_cycles + iterations
    assert sum(layer.cycles or 0 for layer in report.layers) == (device == "rtl") * report.cycles
    (loop,) = report.loops
    assert (loop.iterations, loop.counted) == (5, device == "rtl")
    assert sum(layer.macs for layer in loop.layers) == report.macs - program.macs == 5 * 1296
    assert report.utilisation == pytest.approx(7 * 1296 / 16 / report.cycles)
    profile = make_profile(program, report, session.counted, iterations=session.last_iterations)
    assert sum(profile.causes.values()) == sum(each.cycles for each in profile.operators)
    assert sum(profile.causes.values()) == pytest.approx(report.cycles, rel=0.001)
    assert "An iteration of m transposed" in to_html(profile)
    trace = json.loads(to_chrome(program, profile.timelines, report))["traceEvents"]
    (slice_,) = (each for each in trace if "iterations" in each.get("args", {}))
    assert (round(slice_["dur"] * 1000), slice_["args"]["iterations"]) == (loop.cycles, 5)


def test_explain_lists_the_operators_of_an_iteration():
    table, *lines = explain(matloom.compile(OPEN_LOOPS["count"], "nano", exact=True))
    operators = list(table.columns[1].cells)
    iteration = operators[operators.index("Loop") + 1 :][:2]
    assert iteration == ["CONV_2D", "Identity"]
    assert any(str(line).startswith("each iteration of m transposed takes ") for line in lines)


def equal(content, device, seeds, config="nano"):
    with matloom.load(content, device=device, config=config, exact=True) as session:
        for seed in seeds:
            given, wanted = inputs(content, seed)
            made = session.run(given)
            found = list(made.values()) if isinstance(made, dict) else [made]
            assert all(map(np.array_equal, found, wanted))
        return session.program


@pytest.mark.parametrize(
    "name",
    [
        *("If", "Loop that may end", "Scan, other axes"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("Loop", "Loop, all iterations", "Scan")
        ),
    ],
)
def test_branches_and_turns_are_on_the_engine(name):
    content, layers = NETWORKS[name]
    program = equal(content, "fast", range(6))
    convolutions = [layer for layer in program.layers if layer.operator == str(Op.CONV_2D)]
    assert [layer.where for layer in convolutions] == ["engine"] * layers
    assert program.engine_macs == program.macs


def test_a_loop_that_may_end_ends_early_and_late():
    """Otherwise the test above would compare nothing."""
    sums = [inputs(loop(iterations), seed)[1][0] for iterations in (1, 3) for seed in range(6)]
    ended = [inputs(loop(3, wanted=400), seed)[1][0] for seed in range(6)]
    alike = [
        [np.array_equal(one, other) for one, other in zip(sums[at : at + 6], ended, strict=True)]
        for at in (0, 6)
    ]
    assert any(alike[0])
    assert any(alike[1])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(loop(1000), marks=pytest.mark.slow, id="too many iterations"),
        pytest.param(loop(3, other="ArgMax"), id="an operator that may fail"),
    ],
)
def test_the_host_counts_the_turns_of_others(content):
    program = equal(content, "fast", range(2))
    (found,) = (layer for layer in program.layers if layer.operator == "Loop")
    assert found.where == "host"
    assert "the engine runs" in found.reason


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
@pytest.mark.parametrize("name", NETWORKS)
def test_on_the_chip(name, preset):
    equal(NETWORKS[name][0], "rtl", range(3), preset)
