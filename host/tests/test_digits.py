"""The committed digit network: its structure, and its accuracy on held-out digits."""

import sys

import numpy as np
import pytest
import tflite

from matloom.data import digits
from matloom.errors import MissingPackageError

LOWEST_ACCURACY = 0.97
LARGEST_FILE_BYTES = 200_000


@pytest.fixture(scope="module")
def held_out():
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn, which is absent")
    return digits.held_out()


@pytest.fixture(scope="module")
def interpreter():
    pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is absent")
    from tflite_micro import runtime

    return runtime.Interpreter.from_file(str(digits.NETWORK))


def test_file_is_small():
    assert digits.NETWORK.stat().st_size <= LARGEST_FILE_BYTES


def test_graph_has_a_residual_connection():
    model = tflite.Model.GetRootAs(digits.NETWORK.read_bytes(), 0)
    graph = model.Subgraphs(0)
    operators = [graph.Operators(index) for index in range(graph.OperatorsLength())]
    kinds = [model.OperatorCodes(operator.OpcodeIndex()).BuiltinCode() for operator in operators]
    assert kinds.count(tflite.BuiltinOperator.CONV_2D) == 4
    addition = operators[kinds.index(tflite.BuiltinOperator.ADD)]

    # One summand comes straight from the operator before, the other bypasses two convolutions.
    bypass, direct = addition.InputsAsNumpy()
    convolutions = [operators[index] for index in range(3)]
    assert bypass == convolutions[0].Outputs(0) == convolutions[1].Inputs(0)
    assert direct == convolutions[2].Outputs(0)


def test_input_and_output_are_int8(interpreter):
    source, result = interpreter.get_input_details(0), interpreter.get_output_details(0)
    assert source["dtype"] is np.int8
    assert result["dtype"] is np.int8
    assert list(source["shape"]) == [1, 8, 8, 1]
    assert list(result["shape"]) == [1, 10]
    (scale,) = source["quantization_parameters"]["scales"]
    (zero_point,) = source["quantization_parameters"]["zero_points"]
    assert digits.input_quantisation() == (scale, zero_point)


def test_accuracy_on_held_out_digits(interpreter, held_out):
    images, labels = held_out
    right = 0
    inputs = digits.quantise(images, *digits.input_quantisation())
    for image, label in zip(inputs, labels, strict=True):
        interpreter.set_input(image[np.newaxis], 0)
        interpreter.invoke()
        right += int(np.argmax(interpreter.get_output(0)) == label)
    assert right / len(labels) >= LOWEST_ACCURACY


def test_held_out_digits_are_stratified(held_out):
    images, labels = held_out
    assert images.shape == (360, 8, 8, 1)
    assert images.dtype == np.float32
    assert (images.min(), images.max()) == (0, 1)
    # The classes have 174 to 183 of the 1,797 images, a fifth of which is 35 to 37.
    assert set(np.bincount(labels, minlength=10)) <= {35, 36, 37}


def test_no_held_out_image_is_trained_on(held_out):
    parts = digits.split()
    trained = {image.tobytes() for image in parts.train_images}
    assert len(parts.train_images) == 1797 - 360
    assert not any(image.tobytes() in trained for image in held_out[0])


def test_quantise_rounds_halves_away_from_zero_and_saturates():
    images = np.array([-2.5, -0.5, 0.0, 0.49999997, 0.5, 1.5, 300.0, -300.0], np.float32)
    expected = [-3, -1, 0, 0, 1, 2, 127, -128]
    assert digits.quantise(images, 1.0, 0).tolist() == expected
    assert digits.quantise(images[:4], 0.5, 3).tolist() == [-2, 2, 3, 4]


def test_quantise_refuses_a_scale_of_zero():
    with pytest.raises(ValueError, match=r"scale must be positive, not 0"):
        digits.quantise(np.zeros((1, 8, 8, 1), np.float32), 0, 0)


def test_missing_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ModuleNotFoundError, match="needs the package scikit-learn, which is not"):
        digits.held_out()


def test_without_scikit_learn_the_network_is_saved(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    files = digits.save(tmp_path)
    assert next(files).read_bytes() == digits.NETWORK.read_bytes()
    with pytest.raises(MissingPackageError, match="needs the package scikit-learn"):
        next(files)
    assert [path.name for path in tmp_path.iterdir()] == ["digits.tflite"]
