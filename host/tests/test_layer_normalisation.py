"""Layer normalisation as Keras's converter writes it: all of it on the engine, in one run."""

import flatbuffers
import numpy as np
import pytest

from matloom import compile as compile_network
from matloom import frontend
from matloom.arch.config import load_config
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Arithmetic, Reduce
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.runtime import load
from matloom.tools.references import MicroReference

TOKENS, WIDTH = 12, 20

#: What each preset lacks.
CONFIGS = ("nano+tables=1+products=3", "small+tables=1+products=3", "reference+products=3")

SPACE = Quantisation(scale=(0.05,), zero_point=(-7,))


def covering(values):
    """Return the scale and zero point of the smallest range of int8 with all values and zero."""
    low, high = min(values.min(), 0.0), max(values.max(), 0.0)
    scale = float(np.float32((high - low) / 255))
    return Quantisation(scale=(scale,), zero_point=(round(-128 - low / scale),))


def normalisation(seed):
    """Return a graph, in which QUANTIZE stands for RSQRT, and its int8 input."""
    chance = np.random.default_rng(seed)
    data = chance.normal(0, 1.5, (1, TOKENS, WIDTH)) * chance.uniform(0.3, 1, (1, TOKENS, 1))
    x = np.clip(np.round(data / SPACE.scale[0]) + SPACE.zero_point[0], -128, 127).astype(np.int8)
    builder = GraphBuilder("normalisation")
    values = {builder.input("x", x.shape, "int8", SPACE): data}
    (given,) = values

    def add(op, inputs, result, attributes=None):
        number = builder.add(op, inputs, attributes, quantisation=covering(result))
        values[number] = result
        return number

    def constant(name, result):
        quantisation = covering(result)
        integers = np.round(result / quantisation.scale[0]) + quantisation.zero_point[0]
        number = builder.constant(integers.astype(np.int8), quantisation, name)
        values[number] = result
        return number

    def combined(op, function, *inputs):
        return add(op, inputs, function(*(values[each] for each in inputs)), Arithmetic())

    def mean(source):
        means = values[source].mean(axis=2, keepdims=True)
        return add(Op.MEAN, [source], means, Reduce(axes=(2,), keep_dims=True))

    centre = mean(given)
    squares = add(Op.SQUARED_DIFFERENCE, [given, centre], (data - values[centre]) ** 2)
    variance = combined(Op.ADD, np.add, mean(squares), constant("epsilon", np.array([0.01])))
    root = add(Op.QUANTIZE, [variance], values[variance] ** -0.5)
    gamma = constant("gamma", chance.uniform(0.5, 1.5, WIDTH))
    factor = combined(Op.MUL, np.multiply, root, gamma)
    scaled = combined(Op.MUL, np.multiply, given, factor)
    shifted = combined(Op.MUL, np.multiply, centre, factor)
    offset = combined(Op.SUB, np.subtract, constant("beta", chance.normal(0, 1, WIDTH)), shifted)
    return builder.graph(combined(Op.ADD, np.add, scaled, offset)), x


def file_of(graph):
    """Return the file of a graph, in which QUANTIZE is RSQRT."""
    schema = pytest.importorskip("tflite_micro.python.tflite_micro.runtime").schema_fb
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(write_tflite(graph), 0))
    for code in model.operatorCodes:
        if code.builtinCode == schema.BuiltinOperator.QUANTIZE:
            code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.RSQRT
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def check(seed, config, device):
    """Compare two calls with TensorFlow Lite Micro."""
    graph, data = normalisation(seed)
    content = file_of(graph)
    reference = MicroReference(content, graph)
    program = compile_network(frontend.load(content), load_config(config))
    assert {layer.where for layer in program.layers} == {"engine"}
    assert len(program.steps) == 1
    with load(program, device=device) as session:
        for given in (data, data[:, ::-1]):
            expected = reference.run({graph.inputs[0]: np.ascontiguousarray(given)})
            (output,) = graph.outputs
            found = session.run(given)
            np.testing.assert_array_equal(found, expected[output])
            assert len(np.unique(found)) > WIDTH


@pytest.mark.parametrize("config", CONFIGS)
def test_a_normalisation_is_one_run_of_the_engine(seed, config):
    check(seed, config, "model")


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS)
def test_a_normalisation_on_the_chip(seed, config):
    check(seed, config, "rtl")
