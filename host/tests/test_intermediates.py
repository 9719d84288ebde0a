"""Intermediate tensors on every device: values, names, state, reports, and costs."""

import numpy as np
import pytest
from click.testing import CliRunner

import matloom
from matloom import frontend
from matloom.cli import cli
from matloom.data.digits import NETWORK
from matloom.data.streaming import streaming_network
from matloom.device.errors import DeviceClosedError
from matloom.errors import UserError
from matloom.ir.names import unique_names
from matloom.kernels.interpreter import interpret, next_state
from matloom.tools.compare import random_inputs
from matloom.tools.references import MicroReference
from support.random_network import Size, random_network

DEVICES = ["model", "fast", "rtl"]
SIZE = Size(operators=8, tensor_bytes=2000, macs=200_000)


def images(samples, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, (samples, 8, 8, 1), np.int8)


@pytest.fixture(scope="module")
def graph():
    return frontend.load(NETWORK)


@pytest.mark.parametrize("device", DEVICES)
def test_every_tensor_of_digits_is_that_of_the_reference(device, graph):
    pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is absent")
    reference = MicroReference(NETWORK.read_bytes(), graph)
    given = images(2)
    wanted = [reference.run({graph.inputs[0]: image[np.newaxis]}) for image in given]
    with matloom.load(NETWORK, device, "nano") as session:
        found = session.run(given, outputs="all")
    names = {graph.tensors[number].name: number for node in graph.nodes for number in node.outputs}
    assert list(found) == list(names)
    for name, number in names.items():
        expected = np.concatenate([each[number] for each in wanted])
        assert found[name].dtype == expected.dtype
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


@pytest.mark.parametrize("device", ["model", "fast"])
@pytest.mark.parametrize("number", range(4))
def test_random_networks(device, number, seed):
    graph = random_network(100 * seed + number, SIZE, words=number % 2 == 1, state=number > 1)
    names = dict(unique_names(graph))
    given = random_inputs(graph, seed)
    named = {graph.tensors[at].name: array for at, array in given.items()}
    state = {}
    with matloom.load(graph, device, "nano") as session:
        for _ in range(3):
            expected = interpret(graph, {**given, **state}, keep=True)
            state = next_state(graph, expected)
            found = session.run(named, outputs="all")
            assert found.keys() == {
                graph.tensors[at].name if at in graph.outputs else names[at]
                for node in graph.nodes
                for at in node.outputs
            }
            for node in graph.nodes:
                for at in node.outputs:
                    name = graph.tensors[at].name if at in graph.outputs else names[at]
                    np.testing.assert_array_equal(found[name], expected[at], err_msg=name)


@pytest.mark.parametrize("device", DEVICES)
def test_state_goes_on_through_runs_of_both_kinds(device):
    """Calls with and without additional outputs may be mixed."""
    graph = streaming_network(5)
    (given,), (made,) = graph.inputs, graph.outputs
    frames = np.random.default_rng(0).integers(
        -128, 128, (6, *graph.tensors[given].shape[1:]), np.int8
    )
    inner = graph.tensors[graph.nodes[1].outputs[0]].name
    state, wanted = {}, []
    for frame in frames:
        results = interpret(graph, {given: frame[np.newaxis], **state}, keep=True)
        state = next_state(graph, results)
        named = {each.name: results[each.after] for each in graph.variables}
        wanted.append((results[made], results[graph.nodes[1].outputs[0]], named))
    with matloom.load(graph, device, "nano") as session:
        for at in (0, 1):
            np.testing.assert_array_equal(session.run(frames[at : at + 1]), wanted[at][0])
        found = session.run(frames[2:4], outputs=[inner])
        np.testing.assert_array_equal(found[inner], np.concatenate([wanted[2][1], wanted[3][1]]))
        for name, array in session.state.items():
            np.testing.assert_array_equal(array, wanted[3][2][name])
        np.testing.assert_array_equal(session.run(frames[4:5]), wanted[4][0])
        found = session.run(frames[5:6], outputs=[inner, graph.tensors[made].name])
        np.testing.assert_array_equal(found[inner], wanted[5][1])
        np.testing.assert_array_equal(found[graph.tensors[made].name], wanted[5][0])
        session.reset()
        found = session.run(frames[:1], outputs=[inner])
        np.testing.assert_array_equal(found[inner], wanted[0][1])


@pytest.mark.parametrize("device", ["model", "fast"])
def test_names(device, graph):
    """Full names, prefixes, inputs, outputs; one array of the network is unchanged."""
    (given,) = (graph.tensors[number].name for number in graph.inputs)
    (made,) = (graph.tensors[number].name for number in graph.outputs)
    inner = graph.tensors[graph.nodes[0].outputs[0]].name
    with matloom.load(NETWORK, device, "nano") as session:
        x = images(3)
        found = session.run({given: x}, outputs=[made, inner.split(";")[0], given])
        assert list(found) == [made, inner.split(";")[0], given]
        np.testing.assert_array_equal(found[given], x)
        np.testing.assert_array_equal(found[made], session.run(x))
        assert session.run(x, outputs=[]) == {}
        # Outputs alone are no reason to compile again.
        assert session.run(x, outputs=[made]).keys() == {made}
        assert session.report().stored == ()


def test_names_that_are_none(graph):
    inner = graph.tensors[graph.nodes[0].outputs[0]].name
    constant = next(tensor.name for tensor in graph.tensors.values() if tensor.data is not None)
    with matloom.load(NETWORK, "model", "nano") as session:
        with pytest.raises(UserError, match="digits has no tensor") as caught:
            session.run(images(1), outputs=[inner[:-1] + "~"])
        assert caught.value.hint.startswith("did you mean ")
        with pytest.raises(UserError, match="digits has no tensor 'zzzz'") as caught:
            session.run(images(1), outputs=["zzzz"])
        assert caught.value.hint == "see the names of operators with: matloom explain NET"
        with pytest.raises(UserError, match=r"no operator makes tensor .* it is a constant"):
            session.run(images(1), outputs=[constant])
        with pytest.raises(UserError, match="outputs must be a list of names or 'all', not"):
            session.run(images(1), outputs=inner)
        for wrong in (images(1), [images(1)], 3, (inner, 0), [None], {inner: 1, 2: 3}, b"all"):
            with pytest.raises(UserError, match="outputs must be a list of names or 'all', not of"):
                session.run(images(1), outputs=wrong)
        for index in (0, 99, -1):
            with pytest.raises(UserError, match=r"not of type list of int\n"):
                session.run(images(1), outputs=[index])
        with pytest.raises(ValueError, match="must have shape"):
            session.run(np.zeros((1, 7, 8, 1), np.int8), outputs=[inner])


def test_a_program_file_has_no_intermediates(tmp_path, graph):
    path = tmp_path / "digits.mloom"
    matloom.compile(NETWORK, "nano").save(path)
    (made,) = (graph.tensors[number].name for number in graph.outputs)
    with matloom.load(path, "model") as session:
        wanted = session.run(images(1))
        for outputs in ([made], "all"):
            found = session.run(images(1), outputs=outputs)
            assert found.keys() == {made}
            np.testing.assert_array_equal(found[made], wanted)
        inner = graph.tensors[graph.nodes[0].outputs[0]].name
        with pytest.raises(UserError, match="must be an output of the program 'digits'") as caught:
            session.run(images(1), outputs=[inner])
        assert caught.value.hint == "load the network instead, the .tflite file"


def test_reports_describe_stored_state(graph):
    inner = graph.tensors[graph.nodes[0].outputs[0]].name
    with matloom.load(NETWORK, "rtl", "nano") as session:
        session.run(images(1))
        plain = session.report()
        session.run(images(1), outputs=[inner])
        more = session.report()
        session.run(images(1))
        again = session.report()
    assert plain.stored == again.stored == ()
    assert more.stored == (inner,)
    assert again.cycles == plain.cycles
    assert more.counters["write_beats"] > plain.counters["write_beats"]
    text = " ".join(str(more).split())
    assert f"cycles are of a program that also stores {inner.split(';')[0]}" in text
    assert "also stores" not in str(plain)


def test_a_set_of_names_is_compiled_once(graph, monkeypatch):
    names = [graph.tensors[node.outputs[0]].name for node in graph.nodes[:2]]
    with matloom.load(NETWORK, "model", "nano") as session:
        session.run(images(1), outputs=names)
        monkeypatch.setattr("matloom.compiler.checked_programs.compile_unchecked", None)
        first = session.run(images(2), outputs=names)
        assert first.keys() == set(names)
        assert list(session.run(images(2), outputs=names[::-1])) == names[::-1]


def test_a_closed_session_runs_nothing(graph):
    inner = graph.tensors[graph.nodes[0].outputs[0]].name
    driver = matloom.open_device("model", "nano")
    session = matloom.load(NETWORK, driver, "nano")
    session.run(images(1), outputs=[inner])
    session.close()
    assert driver.owner is None
    with pytest.raises(DeviceClosedError, match="the session was closed"):
        session.run(images(1), outputs=[inner])


def test_the_command_line(tmp_path, graph):
    output = tmp_path / "out.npz"
    np.savez(tmp_path / "in.npz", **{graph.tensors[graph.inputs[0]].name: images(2)})
    inner = graph.tensors[graph.nodes[0].outputs[0]].name
    command = ["run", str(NETWORK), "--config", "nano", "--device", "fast", "--input"]
    command += [str(tmp_path / "in.npz"), "--output", str(output), "--outputs"]
    with matloom.load(NETWORK, "fast", "nano") as session:
        wanted = session.run(images(2), outputs="all")
    for names in ("all", inner):
        done = CliRunner().invoke(cli, [*command, names])
        assert done.exit_code == 0, done.output
        text = " ".join(done.output.split())
        assert text.startswith(f"wrote {output} ")
        assert "cycles are predicted, not counted; outputs are those of the operators' ke" in text
        with np.load(output) as kept:
            assert set(kept) == (set(wanted) if names == "all" else {inner})
            for name in kept:
                np.testing.assert_array_equal(kept[name], wanted[name])
    done = CliRunner().invoke(cli, [*command, "x" + inner])
    assert isinstance(done.exception, UserError)


@pytest.mark.parametrize("device", ["model", "fast"])
def test_with_a_precision_devices_agree(device):
    graph = frontend.load(NETWORK)
    inner = graph.tensors[graph.nodes[0].outputs[0]].name
    options = {"config": "nano+i8xi4", "precision": "i8xi4"}
    with matloom.load(NETWORK, "model", **options) as session:
        wanted = session.run(images(2), outputs="all")
    with matloom.load(NETWORK, device, **options) as session:
        found = session.run(images(2), outputs="all")
    plain = matloom.load(NETWORK, "fast", "nano").run(images(2), outputs=[inner])
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)
    assert not np.array_equal(plain[inner], found[inner])
