"""Trained networks on the host's kernels, equal to TensorFlow Lite Micro's recorded outputs."""

import os
from pathlib import Path

import numpy as np
import pytest

from matloom import frontend
from matloom.kernels.interpreter import interpret

MODELS = Path(os.environ.get("MATLOOM_MODELS", Path(__file__).parents[4] / "shared" / "models"))

pytestmark = pytest.mark.skipif(
    not MODELS.is_dir(), reason=f"the model collection is not at {MODELS} (set MATLOOM_MODELS)"
)

NETWORKS = [
    "mlperf_tiny/ad01_int8",
    "mlperf_tiny/kws_ref_model",
    "mlperf_tiny/pretrainedResnet_quant",
    "mlperf_tiny/str_ww_ref_model",
    "mlperf_tiny/vww_96_int8",
    "siliconlabs/mltkzip_keyword_spotting_on_off",
    "siliconlabs/testhelper_image_example1",
    "tflm/hello_world_int8",
    "tflm/micro_speech_quantized",
    "tflm/person_detect",
    "tflm/person_detect_qdimfix",
    "tflm/simple_add_model",
    "tinyengine/ptq_mnist_lenet-300-100",
]
LABELLED = {
    "dev_ad_normal196": "mlperf_tiny/ad01_int8",
    "dev_cifar_250": "mlperf_tiny/pretrainedResnet_quant",
    "dev_kws_300": "mlperf_tiny/kws_ref_model",
    "dev_micro_speech_100": "tflm/micro_speech_quantized",
    "dev_mnist_lenet_300": "tinyengine/ptq_mnist_lenet-300-100",
    "dev_person_detect_coco33": "tflm/person_detect_qdimfix",
    "dev_str_ww_45": "mlperf_tiny/str_ww_ref_model",
    "dev_vww_coco33": "mlperf_tiny/vww_96_int8",
}


def outputs(name, inputs):
    graph = frontend.load(MODELS / "models" / f"{name}.tflite")
    for sample in zip(*inputs, strict=True):
        given = {
            number: array.reshape(graph.tensors[number].shape)
            for number, array in zip(graph.inputs, sample, strict=True)
        }
        yield interpret(graph, given)[graph.outputs[0]]


def check(name, inputs, expected):
    for at, (given, wanted) in enumerate(zip(outputs(name, inputs), expected, strict=True)):
        assert given.dtype == wanted.dtype
        np.testing.assert_array_equal(given.ravel(), wanted.ravel(), err_msg=f"sample {at}")


@pytest.mark.parametrize("name", NETWORKS)
def test_network_equals_its_golden_outputs(name):
    golden = np.load(MODELS / "golden" / f"{name.replace('/', '__')}.npz")
    inputs = [golden[key] for key in sorted(golden) if key.startswith("in")]
    check(name, inputs, golden["out0_tflm"])


@pytest.mark.slow
@pytest.mark.parametrize("samples", LABELLED)
def test_network_equals_the_reference_on_labelled_samples(samples):
    labelled = np.load(MODELS / "labelled" / f"{samples}.npz")
    check(LABELLED[samples], [labelled["x"]], labelled["out_tflm"])
