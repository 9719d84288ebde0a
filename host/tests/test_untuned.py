"""Untuned networks: every recorded output, call after call."""

import time

import pytest

from matloom import frontend
from matloom.compiler import compile_network
from matloom.device.open import open_device
from matloom.runtime import Session, load
from support.recorded import compare_recorded

PRESETS = ("nano", "reference")

#: By network, the interpreter that gave its outputs.
SHORT = {
    "ambiqai/arrhythmia": "tflm",
    "analogdevicesinc/ds_cnn_s": "tflm",
    "arm_software/kws_micronet_m": "tflm",
    "google_coral/mobilenet_v1_0.75_192_quant": "ref",
    "tensorflow/transpose_conv0": "tflm",
    "tum_ei_eda/rnnoise_INT8": "tflm",
}
LONG = {
    "arm_software/non_stream": "ref",
    "efinix_inc/mediapipe_face_landmark": "tflm",
    "google_coral/traffic_model": "ref",
    "nxp/dperson_shufflenetv2": "tflm",
    "siliconlabs/keyword_spotting_on_off_v3": "tflm",
    "sipeed/mbnet128_0.25_q": "tflm",
    "terryky/bisenetv2_256": "ref",
    "terryky/palm_detection_256": "tflm",
}
#: Those of which operators run on a reference interpreter.
OPAQUE = {
    "arm_software/non_stream",
    "google_coral/traffic_model",
    "nxp/dperson_shufflenetv2",
    "sipeed/mbnet128_0.25_q",
    "tensorflow/transpose_conv0",
    "terryky/bisenetv2_256",
}

#: Those without a command for the engine.
OF_THE_HOST = {
    "arm_software/non_stream",
    "tensorflow/transpose_conv0",
}
KIND = {**SHORT, **LONG}

#: Processor seconds of a compilation with its checks, at most, on a machine that counts to
#: `COUNTED` in `COUNT_SECONDS`; those of large networks, and how many times longer a busy machine
#: may take.
SECONDS = {"nano": 20, "reference": 5}
LARGE = {
    ("google_coral/traffic_model", "nano"): 35,
    ("google_coral/traffic_model", "reference"): 9,
    ("terryky/bisenetv2_256", "nano"): 60,
    ("terryky/bisenetv2_256", "reference"): 7,
    ("terryky/palm_detection_256", "nano"): 65,
    ("terryky/palm_detection_256", "reference"): 10,
}
COUNTED, COUNT_SECONDS = 3_000_000, 0.18
BUSY = 2

slow = pytest.mark.slow


@pytest.fixture(scope="session")
def chip():
    """Return the simulated chip at reference, opened once."""
    driver = open_device("rtl", "reference")
    yield driver
    driver.close()


def compiled(untuned, network, preset):
    """Return a program as the scheduler makes it, without the check that might replace it."""
    if network in OPAQUE:
        for package in ("tflite_micro", "ai_edge_litert"):
            pytest.importorskip(package, reason=f"{package} is not installed")
    graph = frontend.load(untuned / "models" / f"{network}.tflite")
    return compile_network(graph, preset, check="none")


def test_every_network_of_the_collection_is_here(untuned):
    models = untuned / "models"
    found = {
        path.relative_to(models).with_suffix("").as_posix() for path in models.rglob("*.tflite")
    }
    assert found == set(KIND)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("network", "preset"),
    [
        *((network, "reference") for network in SHORT),
        *(pytest.param(network, "nano", marks=slow) for network in SHORT),
        *(pytest.param(network, preset, marks=slow) for network in LONG for preset in PRESETS),
    ],
)
def test_recorded_outputs_on_the_model(untuned, network, preset):
    program = compiled(untuned, network, preset)
    with load(program, device="model") as session:
        compare_recorded(untuned, network, KIND[network], session)


def processor_seconds(action):
    begin = time.process_time()
    action()
    return time.process_time() - begin


def count():
    number = 0
    while number < COUNTED:
        number += 1


@slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("network", sorted(KIND))
def test_compilation_takes_seconds(untuned, network, preset):
    path = untuned / "models" / f"{network}.tflite"
    seconds = processor_seconds(lambda: compile_network(frontend.load(path), preset))
    speed = COUNT_SECONDS / processor_seconds(count)
    most = LARGE.get((network, preset), SECONDS[preset])
    assert seconds * speed <= BUSY * most


@slow
@pytest.mark.parametrize("network", sorted(set(KIND) - OF_THE_HOST))
def test_recorded_outputs_on_the_chip(untuned, network, chip):
    program = compiled(untuned, network, "reference")
    assert program.predicted_cycles > 0
    compare_recorded(untuned, network, KIND[network], Session(program, chip, "rtl"))


@slow
@pytest.mark.parametrize("network", sorted(OF_THE_HOST))
def test_networks_of_the_host_have_no_commands(untuned, network):
    assert compiled(untuned, network, "reference").predicted_cycles == 0
