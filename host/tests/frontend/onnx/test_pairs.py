"""Sums and products of two quantised ONNX tensors are proven equal, also where one is repeated."""

import numpy as np
import pytest

import matloom
from support.quantised_onnx import QuantisedFile, expected, inputs

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

SHAPE = (1, 4, 6, 5)


def two_layers(dtype):
    """Return a file with two convolutions of its input: the current tensor, and the other one."""
    network = QuantisedFile(list(SHAPE), dtype)
    given = network.last, network.quantised
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.4127391, -3))
    other = network.last, network.quantised
    network.last, network.quantised = given
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0091137, (0.3071913, 9))
    return network, other


def combined(network, op, other, made):
    """Add an operator of the current and another tensor, then a last layer."""
    name, quantised = other
    names = [network.last, *network.quantised, name, *quantised]
    network.quantised = network.quantisation(*made)
    network.last = network.add(op, [*names, *network.quantised], "com.microsoft")
    network.weighted("QLinearConv", (3, 8, 1, 1), 0.0131137, (0.8391173, 9))
    return network.content()


def check(content, operator, device="model", config="reference", exact=True):
    """Compare a file with ONNX Runtime, which must not run the operator."""
    with matloom.load(content, device=device, config=config, exact=exact) as session:
        layers = session.program.layers
        assert operator in {layer.operator for layer in layers if layer.where == "engine"}
        assert not [layer for layer in layers if layer.operator.startswith("com.microsoft")]
        for x in inputs(SHAPE, 3):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("device", ["model", pytest.param("rtl", marks=pytest.mark.slow)])
def test_products(device, dtype):
    network, other = two_layers(dtype)
    check(combined(network, "QLinearMul", other, (5.1371311, -11)), "MUL", device)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(
    ("op", "operator", "scale"),
    [("QLinearMul", "MUL", 1.1371311), ("QLinearAdd", "ADD", 0.81)],
)
def test_one_number_for_each_channel(op, operator, scale, dtype):
    """A gate, as of squeeze and excitation."""
    network, other = two_layers(dtype)
    network.function("QLinearGlobalAveragePool", (0.1117131, 4))
    check(combined(network, op, other, (scale, -11)), operator)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_constant_for_each_channel(dtype):
    network, _ = two_layers(dtype)
    quantised = network.quantisation(0.0071313, 3)
    factors = np.random.default_rng(1).integers(0, 100, (8, 1, 1)).astype(dtype)
    other = network.constant(factors), quantised
    check(combined(network, "QLinearMul", other, (0.2371311, -11)), "MUL", config="nano")


@pytest.mark.parametrize("config", ["nano", "reference"])
def test_halves_leave_a_product_to_onnx_runtime(config):
    """Scales that are powers of two make halves, which it rounds to even integers."""
    network, other = two_layers(np.uint8)
    name, _ = other
    for at, scale in ((network.quantised[0], 0.5), (other[1][0], 0.5)):
        network.constants[at] = np.array(scale, np.float32)
    content = combined(network, "QLinearMul", (name, other[1]), (0.5, 0))
    program = matloom.compile(content, config, exact=True)
    assert "com.microsoft.QLinearMul" in {layer.operator for layer in program.layers}


def test_operands_of_fewer_dimensions_are_left_to_onnx_runtime():
    network, other = two_layers(np.uint8)
    network.move("Reshape", network.constant(np.array([8, 6, 5])))
    content = combined(network, "QLinearMul", other, (5.1371311, -11))
    with matloom.load(content, device="model", config="nano") as session:
        (x,) = inputs(SHAPE, 1)
        np.testing.assert_array_equal(session.run(x), expected(content, x))


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_a_value_with_itself_is_left_to_onnx_runtime(op):
    network, _ = two_layers(np.int8)
    content = combined(network, op, (network.last, network.quantised), (0.71371311, -11))
    with matloom.load(content, device="model", config="reference") as session:
        assert f"com.microsoft.{op}" in {layer.operator for layer in session.program.layers}
        for x in inputs(SHAPE, 3):
            np.testing.assert_array_equal(session.run(x), expected(content, x))
