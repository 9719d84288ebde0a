"""Where by a constant condition between quantised layers, in every bit as in ONNX Runtime."""

import numpy as np
import pytest

import matloom
from support.quantised_onnx import QuantisedFile, expected, inputs

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

SHAPE = (2, 3, 9, 9)
#: By name: the shape of a condition, the constant, and whether it comes first.
CASES = {
    "mask": ((9, 9), -1e9, False),
    "inverted mask": ((9, 9), -1e9, True),
    "of all": (SHAPE, 0.4, False),
    "zeros of channels": ((3, 1, 1), 0.0, True),
    "many numbers": ((2, 1, 9, 9), np.linspace(-3, 3, 9), False),
}


def network_of(name, dtype, seed, *, same):
    """Return a file with a random condition, and random scales and zero points unless the same."""
    shape, constant, first = CASES[name]
    network = QuantisedFile(list(SHAPE), dtype, seed)
    random = network.random
    given = network.add("DequantizeLinear", [network.last, *network.quantised])
    condition = network.constant(random.random(shape) < 0.6)
    operands = [given, network.constant(np.asarray(constant, np.float32))]
    made = network.add("Where", [condition, *operands[:: -1 if first else 1]])
    if not same:
        scale = 0.0313717 * float(random.uniform(0.3, 3))
        network.quantised = network.quantisation(scale, int(random.integers(-60, 60)))
    network.last = network.add("QuantizeLinear", [made, *network.quantised])
    return network.content()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("name", CASES)
def test_equals_onnx_runtime(name, dtype, same, exact):
    """As an integer operator, and between floats, as ONNX Runtime leaves it for int8."""
    for seed in range(2):
        content = network_of(name, dtype, seed, same=same)
        with matloom.load(content, device="model", config="reference", exact=exact) as session:
            layers = session.program.layers
            assert {layer.operator for layer in layers if layer.where == "host"} <= {
                *("QuantizeLinear", "DequantizeLinear", "Transpose")
            }
            for x in inputs(SHAPE, 2):
                np.testing.assert_array_equal(session.run(x), expected(content, x))
