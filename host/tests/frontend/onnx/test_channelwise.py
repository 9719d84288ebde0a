"""Functions by channel between DequantizeLinear and QuantizeLinear, against ONNX Runtime."""

import numpy as np
import pytest

import matloom
from support.quantised_onnx import QuantisedFile, expected

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

#: By name: an operator, and the shapes of its input and of its constant.
FUNCTIONS = {
    "PRelu of channels": ("PRelu", (1, 8, 5, 6), (8, 1, 1)),
    "PRelu of the last axis": ("PRelu", (1, 7, 9), (9,)),
    "PRelu of one slope": ("PRelu", (1, 8, 5, 6), (1,)),
    "quotients of channels": ("Div", (1, 8, 5, 6), (1, 8, 1, 1)),
    "quotients of the last axis": ("Div", (3, 20), (20,)),
    "products of rows": ("Mul", (1, 6, 11), (6, 1)),
    "products of channels": ("Mul", (2, 8, 5, 6), (8, 1, 1)),
}


def network_of(op, shape, constant, dtype, seed):
    """Return a file of one operator on bytes, with random scales, zero points and constants."""
    network = QuantisedFile(list(shape), dtype, seed)
    random = network.random
    floats = network.add("DequantizeLinear", [network.last, *network.quantised])
    floats = network.add(op, [floats, network.constant(constant.astype(np.float32))])
    scale = 0.0313717 * float(random.uniform(0.3, 3))
    network.quantised = network.quantisation(scale, int(random.integers(-60, 60)))
    network.last = network.add("QuantizeLinear", [floats, *network.quantised])
    return network.content()


def every_byte(shape):
    """Return an input that reaches all bytes of most channels."""
    random = np.random.default_rng(8)
    return random.uniform(-5, 5, shape).astype(np.float32)


def host_operators(program):
    ends = {"QuantizeLinear", "DequantizeLinear", "Transpose"}
    return {layer.operator for layer in program.layers if layer.where == "host"} - ends


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_onnx_runtime(name, dtype):
    op, shape, constants = FUNCTIONS[name]
    for seed in range(4):
        slopes = np.random.default_rng(seed).normal(0, 0.6, constants)
        slopes = np.minimum(slopes, 1) if op == "PRelu" else slopes + 0.2 * np.sign(slopes)
        if seed == 3 and op == "PRelu":
            # The smaller of two lines.
            slopes = 1 + np.abs(slopes)
        content = network_of(op, shape, slopes, dtype, seed)
        for config in ("nano", "reference"):
            with matloom.load(content, device="model", config=config, exact=True) as session:
                # Without tables, the host turns the network's own uint8 into int8.
                assert host_operators(session.program) <= {"LOOKUP", "QUANTIZE"}
                reasons = [layer.reason for layer in session.program.layers]
                assert "proven equal to ONNX Runtime" in reasons or config == "nano"
                x = every_byte(shape)
                np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_factors_of_zero_and_far_apart():
    slopes = np.array([0, 1e-9, 1, -1, 17.3, -30.1, 0.004, 2.0])
    content = network_of("Mul", (4, 8), slopes, np.uint8, 1)
    with matloom.load(content, device="model", config="reference", exact=True) as session:
        assert host_operators(session.program) == set()
        x = every_byte((4, 8))
        np.testing.assert_array_equal(session.run(x), expected(content, x))


@pytest.mark.parametrize(
    ("op", "slopes"),
    [
        ("PRelu", [0.5, 1.5]),  # Neither the larger nor the smaller of two lines.
        ("Mul", [1.0, 1e4]),  # Beyond the engine's multipliers.
        ("Div", [1.0, 0.0]),
    ],
)
def test_what_has_no_lines_stays_on_onnx_runtime(op, slopes):
    content = network_of(op, (5, 2), np.array(slopes), np.int8, 1)
    with matloom.load(content, device="model", config="reference") as session:
        assert host_operators(session.program) == {op}
        x = every_byte((5, 2))
        np.testing.assert_array_equal(session.run(x), expected(content, x))
