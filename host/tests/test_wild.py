"""Networks from public projects: every recorded output, call after call."""

import numpy as np
import pytest

from matloom import frontend
from matloom.arch.config import load_config
from matloom.compiler import compile_network
from matloom.device.open import open_device
from matloom.program import EngineStep
from matloom.runtime import Session
from matloom.tools.references import MicroReference
from support.recorded import compare_recorded

slow = pytest.mark.slow

#: Those that compile and run in about a second.
SHORT = (
    "tinymaix/mnist_arduino_q",
    "siliconlabs/fingerprint_signature_generator",
    "tflm/trained_lstm_int8",
    "microwakeword/hey_jarvis",
)
LONG = (
    "cfu_playground/mobilenetv2_160_035",
    "cfu_playground/presence_320_240",
    "coral/mobilenet_v1_0.25_128_quant",
    "coral/mobilenet_v1_0.5_160_quant",
    "efinix/mediapipe_face_detection",
    "efinix/yolo_person_detect",
    "secda/dcgan_gen",
    "siliconlabs/keyword_spotting_heygecko",
    "siliconlabs/keyword_spotting_mobilenetv2",
    "siliconlabs/keyword_spotting_pacman",
    "siliconlabs/rock_paper_scissors",
    "tflite_gles_app/face_landmark_192_full_integer_quant",
    "tflm/dtln_noise_suppression",
    "tflm/mobilenet_v2_quantized_1x3x224x224",
    "tinyengine/detection",
    "tinymaix/mbnet96_0.25_q",
)

#: Outputs recorded from LiteRT's reference kernels; of the others from TensorFlow Lite Micro.
OF_LITERT = ("coral/mobilenet_v1_0.25_128_quant", "coral/mobilenet_v1_0.5_160_quant")

#: Predicted cycles above which the simulated chip takes too long.
MOST_CYCLES = 5_000_000


@pytest.fixture(scope="session")
def chip():
    """Return the simulated chip at reference, opened once."""
    driver = open_device("rtl", "reference")
    yield driver
    driver.transport.close()


def check(wild, network, program, driver, device):
    """Compare consecutive calls of a session with the recorded ones."""
    kind = "ref" if network in OF_LITERT else "tflm"
    compare_recorded(wild, network, kind, Session(program, driver, device))


def compiled(wild, network, preset):
    """Return a program as the scheduler makes it, without the check that might replace it."""
    graph = frontend.load(wild / "models" / f"{network}.tflite")
    return compile_network(graph, preset, check="none")


#: A wake word whose convolutions reach into earlier calls.
STREAMING = "microwakeword/hey_jarvis"


class FrameByFrame:
    """A streaming network in TensorFlow Lite Micro with access to its variables."""

    def __init__(self, path):
        self.graph = frontend.load(path)
        self.interpreter = MicroReference(path.read_bytes(), self.graph)

    def run(self, frame):
        """Return the outputs of a call, and the variables after it, by name."""
        (given,) = self.graph.inputs
        tensors = self.interpreter.run({given: frame})
        state = {each.name: tensors[each.after] for each in self.graph.variables}
        return tensors[self.graph.outputs[0]], state


def spoken(count):
    """Return frames that change slowly, as features of sound do."""
    noise = np.random.default_rng(1)
    steps = noise.integers(-20, 21, (count, 1, 3, 40))
    return np.cumsum(steps, axis=0).clip(-128, 127).astype(np.int8)


def follow(wild, session, count):
    """Compare consecutive calls, and all variables after each, with TensorFlow Lite Micro."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    reference = FrameByFrame(wild / "models" / f"{STREAMING}.tflite")
    seen = set()
    for frame in spoken(count):
        expected, state = reference.run(frame)
        np.testing.assert_array_equal(session.run(frame), expected)
        found = session.state
        assert found.keys() == state.keys()
        for name, array in state.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)
            seen.add(array.tobytes())
    assert len(seen) > count * len(state) // 2, "variables must change, or nothing is shown"


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("device", ["model", "fast"])
@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
def test_a_wake_word_frame_by_frame(wild, preset, device):
    program = compiled(wild, STREAMING, preset)
    assert all(variable.place is not None for variable in program.variables)
    follow(wild, Session(program, open_device(device, preset), device), 100)


@pytest.mark.parametrize("preset", ["nano", pytest.param("small", marks=slow)])
def test_a_wake_word_frame_by_frame_on_the_chip(wild, preset):
    program = compiled(wild, STREAMING, preset)
    driver = open_device("rtl", preset)
    session = Session(program, driver, "rtl")
    follow(wild, session, 4)
    assert session.report().resident == (program.repeat is not None)
    driver.close()


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("network", ["tflm/trained_lstm_int8", "tflm/dtln_noise_suppression"])
@pytest.mark.parametrize("device", ["model", "fast"])
@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
def test_an_lstm_is_one_command_buffer_with_functions_of_words(wild, network, device, preset):
    config = load_config(f"{preset}+i16xi8+tables=1+products=4+curves=1+softmax=1")
    program = compiled(wild, network, config)
    assert [type(step) for step in program.steps] == [EngineStep]
    check(wild, network, program, open_device(device, config), device)


def test_every_network_of_the_collection_is_here(wild):
    models = wild / "models"
    found = {
        path.relative_to(models).with_suffix("").as_posix() for path in models.rglob("*.tflite")
    }
    assert found == {*SHORT, *LONG}


@pytest.mark.parametrize(
    "network", [*SHORT, *(pytest.param(network, marks=slow) for network in LONG)]
)
@pytest.mark.parametrize("device", ["model", "fast"])
def test_recorded_outputs(wild, network, device):
    program = compiled(wild, network, "reference")
    check(wild, network, program, open_device(device, "reference"), device)


@slow
@pytest.mark.parametrize("network", [*SHORT, *LONG])
def test_recorded_outputs_on_the_chip(wild, chip, network):
    program = compiled(wild, network, "reference")
    if program.predicted_cycles > MOST_CYCLES:
        pytest.skip(f"{program.predicted_cycles:,} cycles would take too long")
    check(wild, network, program, chip, "rtl")
