"""Quantised transposed convolutions: on the engine, hardly a result other than ONNX Runtime's."""

import numpy as np
import pytest

import matloom
from support.quantised_onnx import QuantisedFile, expected, inputs

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

SHAPE = (1, 4, 6, 5)
SCALE = 0.4127391
#: Lines, of images with one row.
LINES = {
    "line": (3, {"strides": [2]}),
    "line with padding": (4, {"strides": [3], "pads": [1, 2], "output_padding": [1]}),
    "line of one step": (3, {"pads": [1, 1]}),
}
CASES = {
    **LINES,
    "2 x 2": (2, {"strides": [2, 2]}),
    "3 x 3": (3, {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
    "uneven": (3, {"strides": [2, 1], "pads": [0, 1, 1, 0]}),
    "groups": (2, {"strides": [2, 2], "group": 2}),
}


def shape_of(name):
    return (1, 4, 9) if name in LINES else SHAPE


def network(name, dtype, *, bias):
    """Return a convolution, and a transposed one between floats whose weights have many scales."""
    size, options = CASES[name]
    groups = options.get("group", 1)
    window = [1] * (len(shape_of(name)) - 2)
    file = QuantisedFile(list(shape_of(name)), dtype)
    file.weighted("QLinearConv", (8, 4, *window), 0.0113411, (0.1327391, -3))
    given = file.random.uniform(0.004, 0.012, 6).astype(np.float32)
    weights = file.random.integers(
        -127, 128, (8, 6 // groups, *(size * each for each in window)), np.int8
    )
    if groups > 1:
        given = np.float32(0.0071137)
    held = [weights, given, np.zeros(given.shape, np.int8)]
    axis = {"axis": 1} if given.shape else {}
    operands = [
        file.add("DequantizeLinear", [file.last, *file.quantised]),
        file.add("DequantizeLinear", [*map(file.constant, held)], **axis),
    ]
    if bias:
        scales = np.broadcast_to(np.float32(0.1327391) * given, 6).astype(np.float32)
        numbers = file.random.integers(-3000, 3000, 6, np.int32)
        operands.append(
            file.add("DequantizeLinear", [file.constant(numbers), file.constant(scales)], axis=0)
        )
    made = file.add("ConvTranspose", operands, **options)
    file.quantised = file.quantisation(SCALE, 5)
    file.last = file.add("QuantizeLinear", [made, *file.quantised])
    return file.content()


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("name", CASES)
def test_results_are_within_a_step(name, dtype, bias):
    content = network(name, dtype, bias=bias)
    with matloom.load(content, device="model", config="nano") as session:
        (layer,) = (x for x in session.program.layers if x.operator == "TRANSPOSE_CONV")
        assert layer.where == "engine"
        assert "rounds here in floating point" in layer.reason
        for x in inputs(shape_of(name), 3):
            steps = np.rint(np.abs(session.run(x) - expected(content, x)) / SCALE)
            assert steps.max() <= 1
            assert steps.mean() <= 0.01


def test_exact_results_are_those_of_onnx_runtime():
    content = network("3 x 3", np.int8, bias=True)
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        assert "TRANSPOSE_CONV" not in {each.operator for each in session.program.layers}
        for x in inputs(SHAPE, 3):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_a_bias_of_another_scale_stays_with_onnx_runtime():
    content = network("3 x 3", np.int8, bias=True)
    import onnx

    model = onnx.load_from_string(content)
    for each in model.graph.initializer:
        data = onnx.numpy_helper.to_array(each)
        if data.dtype == np.float32 and data.shape == (6,) and data.max() < 0.002:
            each.CopyFrom(onnx.numpy_helper.from_array(data * 2, each.name))
    program = matloom.compile(model.SerializeToString(), "nano")
    assert "ConvTranspose" in {layer.operator for layer in program.layers}
