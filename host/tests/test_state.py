"""State of a session: between calls, next to other sessions, after a fault."""

import numpy as np
import pytest

import matloom
from matloom.arch.csr import Fault
from matloom.arch.isa import Region
from matloom.data.growth import Growth
from matloom.data.streaming import accumulate, streaming_network
from matloom.device.errors import DeviceError, DeviceFaultError
from matloom.frontend.tflite.write import write_tflite
from matloom.kernels.interpreter import interpret, next_state
from matloom.program import Program


@pytest.fixture(scope="module")
def graph():
    return streaming_network(5)


@pytest.fixture(scope="module")
def program(graph):
    return matloom.compile(graph, "nano")


@pytest.fixture(params=["model", "fast"])
def session(program, request):
    with matloom.load(program, device=request.param) as opened:
        yield opened


def frames(graph, count, seed=0):
    shape = graph.tensors[graph.inputs[0]].shape
    return np.random.default_rng(seed).integers(-128, 128, (count, *shape[1:]), np.int8)


def steps(graph, given):
    """Yield the outputs, and variables by name, of each call by the interpreter of graphs."""
    state = {}
    for frame in given:
        results = interpret(graph, {graph.inputs[0]: frame[np.newaxis], **state})
        state = next_state(graph, results)
        named = {each.name: results[each.after] for each in graph.variables}
        yield results[graph.outputs[0]], named


def equal(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )


def test_nothing_of_the_state_crosses_to_the_host(program):
    """All of it stays in the arena."""
    assert len(program.variables) == 4
    places = [variable.place for variable in program.variables]
    assert {place.region for place in places} == {Region.ARENA}
    (step,) = program.steps
    names = [variable.name for variable in program.variables]
    assert names == ["v0", "v1", "v2", "v3"]
    crossing = [item for item in (*step.inputs, *step.outputs) if item.region is not Region.ARENA]
    assert len(crossing) == 2
    assert program.state_bytes == sum(array.nbytes for array in program.initial_state().values())


@pytest.mark.parametrize("device", ["model", "fast", "rtl"])
def test_calls_follow_one_another(graph, program, device):
    given = frames(graph, 8)
    wanted = list(steps(graph, given))
    with matloom.load(program, device=device) as session:
        for at, frame in enumerate(given[:4]):
            np.testing.assert_array_equal(session.run(frame[np.newaxis]), wanted[at][0])
            assert equal(session.state, wanted[at][1])
        assert session.report().resident
        # Samples of one call follow one another, too.
        last = session.run(given[4:])
        np.testing.assert_array_equal(last, np.concatenate([each[0] for each in wanted[4:]]))
        session.reset()
        np.testing.assert_array_equal(session.run(given[:1]), wanted[0][0])


def test_a_saved_program_remembers(tmp_path, graph, program):
    given = frames(graph, 3)
    program.save(tmp_path / "a.mloom")
    assert Program.load(tmp_path / "a.mloom") == program
    with matloom.load(tmp_path / "a.mloom", device="model") as session:
        last = session.run(given)[-1:]
    np.testing.assert_array_equal(last, list(steps(graph, given))[-1][0])


def test_state_is_saved_and_restored(graph, session):
    given = frames(graph, 5)
    assert equal(session.state, {each.name: each.initial for each in graph.variables})
    session.run(given[:3])
    kept = session.state
    wanted = session.run(given[3:])
    kept_too = session.state
    kept_too["v0"][...] = 0
    session.restore(kept)
    np.testing.assert_array_equal(session.run(given[3:]), wanted)
    assert not equal(session.state, kept_too)


def test_invalid_states(session):
    kept = session.state
    with pytest.raises(ValueError, match=r"a state must be of \['v0', 'v1', 'v2', 'v3'\], not"):
        session.restore({"v0": kept["v0"]})
    with pytest.raises(TypeError, match="variable 'v1' must be int8, not float64"):
        session.restore({**kept, "v1": kept["v1"] * 1.0})
    with pytest.raises(ValueError, match=r"variable 'v2' must be \(1, \d, 1, 12\), not \(1, 12\)"):
        session.restore({**kept, "v2": kept["v2"][0, 0]})
    assert equal(session.state, kept)


def test_sessions_share_a_device(graph, program, session):
    """Each has its own state; what is in memory is saved when another session runs."""
    given = [frames(graph, 4, seed) for seed in range(2)]
    wanted = [list(steps(graph, each)) for each in given]
    other = matloom.load(program, session.driver)
    for at in range(4):
        for number, each in enumerate((session, other)):
            found = each.run(given[number][at : at + 1])
            np.testing.assert_array_equal(found, wanted[number][at][0])
    matloom.ops.matmul(np.eye(4, dtype=np.int8), np.eye(4, dtype=np.int8), device=session.driver)
    assert equal(session.state, wanted[0][3][1])
    assert equal(other.state, wanted[1][3][1])
    other.close()
    session.run(given[0][:1])


def test_after_a_fault_the_state_is_unknown(graph, session, monkeypatch):
    given = frames(graph, 2)
    session.run(given)
    kept = session.state

    def fault(*_arguments):
        raise DeviceFaultError(cause=Fault.TIMEOUT, unit="LOAD", opcode=0, index=0, address=0)

    with monkeypatch.context() as changed:
        changed.setattr(session.driver, "run", fault)
        with pytest.raises(DeviceFaultError):
            session.run(given[:1])
    for use in (lambda: session.run(given[:1]), lambda: session.state):
        with pytest.raises(DeviceError, match="variables v0, v1, v2, v3 must be reset or restored"):
            use()
    session.restore(kept)
    assert equal(session.state, kept)
    session.run(given)
    session.reset()
    wanted = list(steps(graph, given))
    np.testing.assert_array_equal(session.run(given)[-1:], wanted[-1][0])


def test_a_variable_that_the_host_keeps():
    """An input is assigned directly, so the variable is passed through the host."""
    growth = Growth((2,))
    given = growth.input((1, 4, 4, 3), "int8")
    total = accumulate(growth, given)
    graph = growth.graph("last", [given], [total])
    frame = frames(graph, 3)
    with matloom.load(graph, device="model", config="nano") as session:
        assert [each.place for each in session.program.variables] == [None]
        for at, (output, named) in enumerate(steps(graph, frame)):
            np.testing.assert_array_equal(session.run(frame[at : at + 1]), output)
            assert equal(session.state, named)


def test_a_file_of_it_runs(tmp_path, graph):
    path = tmp_path / "network.tflite"
    path.write_bytes(write_tflite(graph))
    given = frames(graph, 3)
    with matloom.load(path, device="model", config="small") as session:
        found = session.run(given)
    np.testing.assert_array_equal(found, np.concatenate([each for each, _ in steps(graph, given)]))
