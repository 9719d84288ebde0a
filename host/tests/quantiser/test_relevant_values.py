"""Values that cannot matter: the operator that reads them gives the same result without them."""

from dataclasses import replace

import numpy as np
import pytest

from matloom.ir.attributes import Activation, Arithmetic, Attributes, Softmax
from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.quantiser import quantise
from matloom.quantiser.relevant_values import clamp_to_relevant
from support.float_network import FloatNetwork, float_samples


def residual(activation):
    """Return a network that adds an image and its convolution, whose values are the larger."""
    network = FloatNetwork("residual")
    image = network.input("image", (1, 8, 8, 3), "float32")
    made = network.convolution(image, 3, kernel=3, activation=Activation.NONE)
    graph = network.graph(network.add(Op.ADD, [made, image], Arithmetic(activation=activation)))
    weights = graph.nodes[0].inputs[1]
    tensor = graph.tensors[weights]
    larger = replace(tensor, data=8 * tensor.data)
    return replace(graph, tensors={**graph.tensors, weights: larger})


@pytest.mark.parametrize("activation", [Activation.RELU, Activation.RELU6, Activation.NONE])
def test_operands_of_additions(activation):
    graph = residual(activation)
    image = 4 * float_samples(1)[0]
    known = interpret(graph, {graph.inputs[0]: image}, keep=True)
    made = graph.nodes[0].output
    before, after = known[made], clamp_to_relevant(graph, made, known)
    given = known[graph.outputs[0]]
    limits = {Activation.RELU: (0, np.inf), Activation.RELU6: (0, 6)}
    least, most = limits.get(activation, (-np.inf, np.inf))
    assert np.allclose(np.clip(after + image, least, most), given, atol=1e-5)
    moved = before != after
    assert moved.any() == (activation is not Activation.NONE)
    # No nearer value has the same effect.
    assert np.allclose((after + image)[moved], given[moved], atol=1e-5)


def test_what_an_output_or_another_operator_reads_matters():
    network = FloatNetwork("residual")
    image = network.input("image", (1, 8, 8, 3), "float32")
    made = network.convolution(image, 3, kernel=3, activation=Activation.NONE)
    sums = network.add(Op.ADD, [made, image], Arithmetic(activation=Activation.RELU))
    graph = network.graph(sums, made)
    known = interpret(graph, {graph.inputs[0]: 4 * float_samples(1)[0]}, keep=True)
    assert np.array_equal(clamp_to_relevant(graph, made, known), known[made])


@pytest.mark.parametrize(("op", "least"), [(Op.SOFTMAX, 11.09), (Op.LOG_SOFTMAX, 16)])
def test_values_far_below_the_largest_of_a_softmax(op, least):
    network = FloatNetwork("classes")
    given = network.input("x", (2, 4), "float32")
    attributes = Softmax(beta=1.0) if op is Op.SOFTMAX else Attributes()
    graph = network.graph(network.add(op, [given], attributes))
    rows = np.array([[[3, -40, 2.5, 0]], [[-30, -20, -90, -25]]], np.float32)
    found = clamp_to_relevant(graph, given, {given: rows})
    wanted = [[[3, 3 - least, 2.5, 0]], [[-30, -20, -20 - least, -25]]]
    assert np.allclose(found, wanted, atol=0.01)


def test_rows_that_a_mask_excludes():
    """A row far below the others has no limit of its own: the query is padding."""
    network = FloatNetwork("masked")
    given = network.input("x", (2, 3), "float32")
    graph = network.graph(network.add(Op.SOFTMAX, [given], Softmax(beta=1.0)))
    rows = np.array([[[3, -1024, 2.5], [-1021, -1023, -1024]]], np.float32)
    found = clamp_to_relevant(graph, given, {given: rows})
    assert np.allclose(found, [[[3, -8.09, 2.5], [-8.09, -8.09, -8.09]]], atol=0.01)


def test_ranges_leave_out_what_does_not_matter():
    images = np.abs(float_samples(20))
    low = {}
    for activation in (Activation.RELU, Activation.NONE):
        made = quantise(residual(activation), images, calibration="minmax")
        low[activation] = made.report.layers[0].low
        assert made.report.layers[0].saturated == 0
    assert low[Activation.NONE] < 2 * low[Activation.RELU] < 0
