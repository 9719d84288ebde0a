"""Trained networks on each device: bit for bit TensorFlow Lite Micro's results."""

import numpy as np
import pytest

import matloom
from matloom.data import digits

#: Every golden input of these runs on the chip in seconds; of the others only the first does.
SHORT = (
    "mlperf_tiny/ad01_int8",
    "mlperf_tiny/pretrainedResnet_quant",
    "siliconlabs/mltkzip_keyword_spotting_on_off",
    "siliconlabs/testhelper_image_example1",
    "tflm/hello_world_int8",
    "tflm/micro_speech_quantized",
    "tflm/simple_add_model",
    "tinyengine/ptq_mnist_lenet-300-100",
)
LONG = (
    "mlperf_tiny/kws_ref_model",
    "mlperf_tiny/str_ww_ref_model",
    "mlperf_tiny/vww_96_int8",
    "tflm/person_detect",
    "tflm/person_detect_qdimfix",
)

#: Networks of floats, which run on the host, and what their recorded outputs are called.
FLOATING = {
    "mlperf_tiny/kws_ref_model_float32": "out0_ref",
    "mlperf_tiny/pretrainedResnet": "out0_tflm",
    "tflm/hello_world_float": "out0_tflm",
}

#: Labelled samples, and the network whose recorded outputs they carry.
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
#: Labelled samples that run on the chip.
FIRST = 20

slow = pytest.mark.slow


@pytest.fixture(scope="session")
def devices():
    """Return a device by name; each is opened once, for all networks."""
    opened = {}

    def find(name):
        if name not in opened:
            opened[name] = matloom.open_device(name, "reference")
        return opened[name]

    yield find
    if "rtl" in opened:
        opened["rtl"].transport.close()


def check(device, network, inputs, expected):
    """Run a network on samples, one by one, and compare each with the recorded output."""
    session = matloom.load(network, device=device)
    names = [info.name for info in session.program.inputs]
    shapes = [info.shape for info in session.program.inputs]
    (output,) = (info.name for info in session.program.outputs)
    for at, wanted in enumerate(expected):
        given = {
            name: array[at].reshape(shape)
            for name, shape, array in zip(names, shapes, inputs, strict=True)
        }
        found = session.run(given)[output]
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.ravel(), wanted.ravel(), err_msg=f"sample {at}")


def check_golden(models, device, network, count=None):
    with np.load(models / "golden" / f"{network.replace('/', '__')}.npz") as golden:
        inputs = [golden[key] for key in sorted(golden) if key.startswith("in")]
        expected = golden["out0_tflm"][:count]
    assert len(expected) > 0
    check(device, models / "models" / f"{network}.tflite", inputs, expected)


def check_labelled(models, device, samples, count=None):
    with np.load(models / "labelled" / f"{samples}.npz") as labelled:
        inputs, expected = [labelled["x"]], labelled["out_tflm"][:count]
    assert len(expected) > 0
    check(device, models / "models" / f"{LABELLED[samples]}.tflite", inputs, expected)


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("network", [*SHORT, *LONG])
@pytest.mark.parametrize("device", ["model", "fast"])
def test_golden_outputs(models, devices, device, network):
    check_golden(models, devices(device), network)


@pytest.mark.parametrize("device", ["model", "fast"])
@pytest.mark.parametrize("network", FLOATING)
def test_networks_of_floats(models, devices, device, network):
    session = matloom.load(models / "models" / f"{network}.tflite", device=devices(device))
    (info,) = session.program.inputs
    with np.load(models / "golden" / f"{network.replace('/', '__')}.npz") as golden:
        expected = golden[FLOATING[network]]
        for given, wanted in zip(golden["in0"], expected, strict=True):
            found = session.run(given.reshape(info.shape))
            np.testing.assert_allclose(found.ravel(), wanted.ravel(), rtol=0, atol=1e-5)
    assert len(expected) > 0
    assert {layer.where for layer in session.program.layers} == {"host"}


@slow
@pytest.mark.parametrize("network", SHORT)
def test_golden_outputs_on_the_chip(models, devices, network):
    check_golden(models, devices("rtl"), network)


@slow
@pytest.mark.parametrize("network", LONG)
def test_first_golden_output_on_the_chip(models, devices, network):
    check_golden(models, devices("rtl"), network, count=1)


@slow
@pytest.mark.parametrize("network", LONG)
def test_all_golden_outputs_on_the_chip(models, devices, network):
    check_golden(models, devices("rtl"), network)


@slow
@pytest.mark.parametrize("samples", LABELLED)
@pytest.mark.parametrize("device", ["model", "fast"])
def test_labelled_samples(models, devices, device, samples):
    check_labelled(models, devices(device), samples)


@slow
@pytest.mark.parametrize("samples", LABELLED)
def test_first_labelled_samples_on_the_chip(models, devices, samples):
    check_labelled(models, devices("rtl"), samples, FIRST)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("device", "count"),
    [
        ("model", 360),
        ("fast", 360),
        pytest.param("rtl", 20, marks=slow),
        pytest.param("rtl", 360, marks=slow),
    ],
)
def test_digits_equal_the_reference(devices, device, count):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn, which is absent")
    pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is absent")
    from tflite_micro import runtime

    reference = runtime.Interpreter.from_file(str(digits.NETWORK))
    images, _labels = digits.held_out()
    inputs = digits.quantise(images[:count], *digits.input_quantisation())
    expected = []
    for image in inputs:
        reference.set_input(image[np.newaxis], 0)
        reference.invoke()
        expected.append(reference.get_output(0))
    check(devices(device), digits.NETWORK, [inputs], expected)
