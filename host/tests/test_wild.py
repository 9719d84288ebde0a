"""Networks that people run, as they found them: every recorded output, call after call."""

import numpy as np
import pytest

from matloom.compiler import compile_network
from matloom.device.open import open_device
from matloom.frontend.tflite import load_tflite
from matloom.runtime import Session

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
    """Compare consecutive calls of a session with those of one interpreter.

    The first call loads all weights; later ones find those that stay.
    """
    kind = "ref" if network in OF_LITERT else "tflm"
    session = Session(program, driver, device)
    with np.load(wild / "golden" / f"{network.replace('/', '__')}.npz") as golden:
        inputs = [golden[f"in{at}"] for at in range(len(program.inputs))]
        outputs = [golden[f"out{at}_{kind}"] for at in range(len(program.outputs))]
    assert len(outputs[0]) == 3
    for at in range(3):
        given = {
            info.name: array[at].reshape(info.shape)
            for info, array in zip(program.inputs, inputs, strict=True)
        }
        made = session.run(given)
        for info, expected in zip(program.outputs, outputs, strict=True):
            found, wanted = made[info.name].ravel(), expected[at].ravel()
            assert found.dtype == wanted.dtype
            message = f"call {at}, output {info.name}"
            if wanted.dtype == np.float32:
                margin = 1e-5 * np.abs(wanted).max()
                np.testing.assert_allclose(found, wanted, rtol=0, atol=margin, err_msg=message)
            else:
                np.testing.assert_array_equal(found, wanted, err_msg=message)


def compiled(wild, network, preset):
    """Return a program as the scheduler makes it, without the check that might replace it."""
    graph = load_tflite(wild / "models" / f"{network}.tflite")
    return compile_network(graph, preset, check="none")


def test_every_network_of_the_collection_is_here(wild):
    models = wild / "models"
    found = {
        path.relative_to(models).with_suffix("").as_posix() for path in models.rglob("*.tflite")
    }
    assert found == {*SHORT, *LONG}


@pytest.mark.parametrize(
    "network", [*SHORT, *(pytest.param(network, marks=slow) for network in LONG)]
)
def test_recorded_outputs_on_the_model(wild, network):
    program = compiled(wild, network, "reference")
    check(wild, network, program, open_device("model", "reference"), "model")


@slow
@pytest.mark.parametrize("network", [*SHORT, *LONG])
def test_recorded_outputs_on_the_chip(wild, chip, network):
    program = compiled(wild, network, "reference")
    if program.predicted_cycles > MOST_CYCLES:
        pytest.skip(f"{program.predicted_cycles:,} cycles would take too long")
    check(wild, network, program, chip, "rtl")
