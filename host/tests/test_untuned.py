"""Networks that nobody tuned for: every recorded output, call after call."""

import pytest

from matloom import frontend
from matloom.compiler import compile_network
from matloom.runtime import load
from support.recorded import compare_recorded

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

slow = pytest.mark.slow


def test_every_network_of_the_collection_is_here(untuned):
    models = untuned / "models"
    found = {
        path.relative_to(models).with_suffix("").as_posix() for path in models.rglob("*.tflite")
    }
    assert found == {*SHORT, *LONG}


@pytest.mark.parametrize(
    ("network", "preset"),
    [
        *((network, "reference") for network in SHORT),
        *(pytest.param(network, "nano", marks=slow) for network in SHORT),
        *(pytest.param(network, "reference", marks=slow) for network in LONG),
        # Those of 256 x 256 take the functional model minutes at `nano`.
        *(pytest.param(network, "nano", marks=slow) for network in LONG if "_256" not in network),
    ],
)
def test_recorded_outputs_on_the_model(untuned, network, preset):
    if network in OPAQUE:
        for package in ("tflite_micro", "ai_edge_litert"):
            pytest.importorskip(package, reason=f"{package} is not installed")
    graph = frontend.load(untuned / "models" / f"{network}.tflite")
    program = compile_network(graph, preset, check="none")
    with load(program, device="model") as session:
        compare_recorded(untuned, network, {**SHORT, **LONG}[network], session)
