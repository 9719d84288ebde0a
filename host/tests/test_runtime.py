"""Sessions: names, shapes and dtypes of the model, and the cost of a run."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.arch.isa import Region
from matloom.arch.memory import MEMORIES
from matloom.data.digits import NETWORK
from matloom.device.errors import DeviceError, DeviceFaultError
from matloom.errors import HintedError
from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.program import HostStep, Program, ProgramError
from matloom.schedule import CompileOptions
from matloom.verification.random_operators import RandomOperators


@pytest.fixture(scope="module")
def session():
    with matloom.load(NETWORK, device="model", config="small") as opened:
        yield opened


def images(count, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, (count, 8, 8, 1), np.int8)


def test_samples_run_one_by_one(session):
    """Compared with the graph's interpreter, which is independent of the engine."""
    graph = frontend.load(NETWORK)
    batch = images(5)
    outputs = session.run(batch)
    assert outputs.shape == (5, 10)
    for image, output in zip(batch, outputs, strict=True):
        wanted = interpret(graph, {graph.inputs[0]: image[np.newaxis]})
        assert np.array_equal(wanted[graph.outputs[0]][0], output)


def test_a_session_shows_what_it_runs(session):
    program = "<Program 'digits' for small ("
    ends = "): 'image' int8 (1, 8, 8, 1) to 'probabilities' int8 (1, 10)>"
    assert repr(session.program).startswith(program)
    assert repr(session.program).endswith(ends)
    assert repr(session) == f"<Session on device 'model' of {session.program!r}>"


def test_by_name(session):
    outputs = session.run({"image": images(2)})
    assert list(outputs) == ["probabilities"]
    assert np.array_equal(outputs["probabilities"], session.run(images(2)))


@pytest.mark.parametrize(
    ("inputs", "error", "sentence"),
    [
        (
            {"picture": images(1)},
            ValueError,
            r"inputs must be named \['image'\], not \['picture'\]",
        ),
        (images(1).astype(np.uint8), TypeError, "input 'image' must be int8, not uint8"),
        (images(1)[0], ValueError, r"must have shape \(1, 8, 8, 1\), or more .* not \(8, 8, 1\)"),
        (images(0), ValueError, r"a whole number of samples, not \(0, 8, 8, 1\)"),
        (images(1)[:, :7], ValueError, r"not \(1, 7, 8, 1\)"),
    ],
)
def test_wrong_inputs(session, inputs, error, sentence):
    with pytest.raises(error, match=sentence):
        session.run(inputs)


@pytest.mark.parametrize(
    ("keyword", "sentence"),
    [
        ("options", "options must be a CompileOptions, not dict"),
        ("preprocess", "an input to preprocess must be one of image, not 'effort'"),
    ],
)
def test_options_in_a_mapping(keyword, sentence):
    with pytest.raises(HintedError, match=sentence):
        matloom.load(NETWORK, "model", "nano", check="none", **{keyword: {"effort": 2}})
    with pytest.raises(HintedError, match=f"{keyword} must be .*, not int"):
        matloom.load(NETWORK, "model", "nano", check="none", **{keyword: 3})


def test_report_of_a_device_without_time(session):
    session.run(images(1))
    report = session.report()
    assert report.cycles_source == "predicted"
    program = session.program
    assert report.cycles == (program.repeat or program).predicted_cycles
    assert report.utilisation == pytest.approx(report.macs / (64 * report.cycles))
    assert report.host_steps == ("SOFTMAX",)
    assert [layer.where for layer in report.layers].count("host") == 1
    wanted = {"cycles", "macs", "utilisation", "device", "config_digest", "layers", "host_steps"}
    assert wanted <= set(json.loads(report.to_json()))
    assert "logits" in str(report)


def test_report_of_the_chip():
    with matloom.load(NETWORK, device="rtl", config="nano") as session:
        outputs = session.run(images(2))
        report = session.report()
    with matloom.load(NETWORK, device="model", config="nano") as model:
        assert np.array_equal(outputs, model.run(images(2)))
    assert report.cycles_source == "counters"
    streamed = report.counters["exec_stream"]
    assert report.cycles == streamed + sum(report.stalls.values())
    assert f"  exec_stream: {streamed:,} ({streamed / report.cycles:.1%})\n" in str(report)
    engine = [layer for layer in report.layers if layer.where == "engine"]
    assert all(layer.cycles and layer.cycles > 0 for layer in engine)
    assert sum(layer.cycles for layer in engine) <= report.cycles
    assert report.bytes_read == 4 * report.counters["read_beats"]
    for line in (f"store_busy: {report.counters['store_busy']:,}", f"{report.bytes_read:,} bytes"):
        assert line in str(report)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("device", ["model", "fast", "rtl"])
def test_weights_stay_on_chip(device):
    """Later calls give equal results and transfer no weights; after an error, they reload."""
    options = CompileOptions(resident=True)
    fresh = [matloom.load(NETWORK, "model", "nano", options).run(images(1, n)) for n in range(6)]
    with matloom.load(NETWORK, device, "nano", options) as session:
        other = matloom.load(NETWORK, session.driver, "nano", CompileOptions(resident=False))

        def stays(number):
            assert np.array_equal(session.run(images(1, number)), fresh[number])
            return session.report().resident

        assert [stays(0), stays(1)] == [False, True]
        assert np.array_equal(other.run(images(1, 2)), fresh[2])
        assert [stays(2), stays(3)] == [False, True]
        session.driver.reset()
        assert [stays(3), stays(4)] == [False, True]
        with pytest.raises(DeviceFaultError, match="COMMAND_RANGE"):
            session.driver.run(0, 0)
        session.driver.reset()
        assert [stays(4), stays(5)] == [False, True]
        report = session.report()
    repeat = session.program.repeat
    assert report.predicted_cycles == repeat.predicted_cycles < session.program.predicted_cycles
    assert report.as_dict()["resident"]
    if device == "rtl":
        kept = sum(end - start for start, end in repeat.kept)
        assert report.counters["read_beats"] * PRESETS["nano"].bus_bytes < kept


def test_weights_do_not_survive_a_reset_of_the_chip():
    with matloom.load(NETWORK, "rtl", "nano", CompileOptions(resident=True)) as session:
        first = session.run(images(1))
        session.driver.transport.reset()
        session.driver.place_regions(session.program.region_bytes)
        assert np.array_equal(session.run(images(1)), first)
        assert not session.report().resident


def test_a_saved_program_runs(tmp_path, session):
    path = tmp_path / "digits.mloom"
    matloom.compile(NETWORK, config="small").save(path)
    with matloom.load(path, device="model") as loaded:
        assert np.array_equal(loaded.run(images(3)), session.run(images(3)))
    with pytest.raises(ProgramError, match="the program is for configuration small"):
        matloom.load(path, device="model", config="nano")


def test_unknown_device():
    names = r"one of rtl, netlist, model, fast, soc, uart:PORT\[@BAUD\], uio:\[UIO\[,DMABUF\]\]"
    for name in ("gpu", None):
        with pytest.raises(DeviceError, match=f"{names}, not {name!r}"):
            matloom.load(NETWORK, device=name)


@pytest.mark.parametrize(("device", "config"), [("model", "small"), ("rtl", "nano")])
def test_a_session_that_was_closed(device, config):
    with matloom.load(NETWORK, device, config) as session:
        session.run(images(1))
    session.close()
    assert session.report().macs
    with pytest.raises(DeviceError, match="the session was closed\nhint: load the network again"):
        session.run(images(1))


def test_a_driver_that_was_given_stays_open(session):
    driver = matloom.open_device("model", "small")
    for _ in range(2):
        with matloom.load(NETWORK, driver, "small") as shared:
            assert np.array_equal(shared.run(images(2)), session.run(images(2)))
    with pytest.raises(TypeError, match="memory_bytes must not be given with an open driver"):
        matloom.load(NETWORK, driver, "small", memory_bytes=1 << 20)


def test_a_network_is_compiled_for_the_memory_of_its_device():
    driver = matloom.open_device("model", "small")
    driver.transport.external_memory = MEMORIES["on-chip"]
    slow = CompileOptions(memory=MEMORIES["sdram-16"])
    for asked, name in (
        ({}, "on-chip"),
        ({"memory": "reference"}, "reference"),
        ({"options": slow}, "sdram-16"),
        ({"options": CompileOptions(effort=0)}, "on-chip"),
    ):
        assert matloom.load(NETWORK, driver, "small", **asked).program.memory is MEMORIES[name]


def test_inputs_that_a_program_cannot_take(session):
    with pytest.raises(TypeError, match="precision must go with a network, not the program"):
        matloom.load(session.program, "model", precision="i8xi4")
    with pytest.raises(TypeError, match="check must go with a network, not the program"):
        matloom.load(session.program, "model", check="full")
    with pytest.raises(ValueError, match="waves must go with device 'rtl', not 'model'"):
        matloom.load(session.program, "model", waves="waves.vcd")
    with pytest.raises(ValueError, match="memory_bytes must be 1 or more, not 0"):
        matloom.load(session.program, "model", memory_bytes=0)


def test_memory_is_as_large_as_the_network_needs(session):
    large = dict(session.program.region_bytes) | {Region.ARENA: 20 << 20}
    with matloom.load(replace(session.program, region_bytes=large), "model") as roomy:
        assert roomy.driver.transport.memory_bytes == 1 << 26
        assert np.array_equal(roomy.run(images(1)), session.run(images(1)))


def test_threads_share_a_driver(session):
    driver = matloom.open_device("model", "small")
    sessions = [matloom.load(NETWORK, driver, "small") for _ in range(2)]
    wanted = [session.run(images(3, seed)) for seed in range(4)]

    def work(seed):
        return sessions[seed % 2].run(images(3, seed))

    with ThreadPoolExecutor(4) as threads:
        for found, expected in zip(threads.map(work, range(4)), wanted, strict=True):
            assert np.array_equal(found, expected)


def test_a_damaged_host_step(session):
    program = Program.from_bytes(session.program.to_bytes())
    foreign = HostStep(operator="DREAM", inputs=("logits",), outputs=("probabilities",))
    broken = type(program)(**{**vars(program), "steps": (program.steps[0], foreign)})
    with pytest.raises(ProgramError, match="operator must have a kernel, not 'DREAM'"):
        matloom.load(broken, device="model")


def test_a_constant_beyond_the_data(tmp_path):
    graph = RandomOperators(0, "float32").make(Op.FULLY_CONNECTED)
    program = matloom.compile(graph, "small")
    broken = replace(program, host_data=program.host_data[:-1])
    with pytest.raises(ProgramError, match=r"constant '\w+' must lie within \d+ bytes, not end at"):
        matloom.load(broken, device="model")


def test_several_inputs_need_names(models):
    path = models / "models/tflm/simple_add_model.tflite"
    with (
        matloom.load(path, device="model", config=PRESETS["nano"]) as session,
        pytest.raises(ValueError, match="inputs must be a mapping of"),
    ):
        session.run(np.zeros((1, 128, 128, 1), np.int8))
