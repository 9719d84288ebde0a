"""Layers with int8 weights between floats, from their definition and compared with LiteRT."""

from dataclasses import replace

import numpy as np
import pytest

from matloom import frontend
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.graph import Op, Quantisation, Tensor
from matloom.kernels.interpreter import interpret
from matloom.verification.random_operators import RandomOperators


def instance(op, seed):
    """Return a float32 layer whose weights are int8 instead."""
    graph = RandomOperators(seed, "float32").make(op)
    shape = graph.tensors[1].shape
    data = np.random.default_rng(seed).integers(-127, 128, shape, np.int8)
    quantisation = Quantisation(scale=(float(np.float32(0.013)),), zero_point=(0,))
    weights = Tensor(
        name="weights", shape=shape, dtype="int8", quantisation=quantisation, data=data
    )
    return replace(graph, tensors={**graph.tensors, 1: weights})


@pytest.mark.parametrize("seed", range(5))
def test_dense_from_its_definition(seed):
    graph = instance(Op.FULLY_CONNECTED, seed)
    weights, bias = graph.tensors[1].data, np.float32(0)
    if len(graph.nodes[0].inputs) == 3:
        bias = graph.tensors[2].data
    given = np.random.default_rng(seed).standard_normal(graph.tensors[0].shape)
    given = given.astype(np.float32)
    given[..., :1, :] = 0
    rows = []
    for row in given.reshape(-1, weights.shape[1]):
        reach = np.abs(row).max()
        integers = [round(float(value) * 127 / float(reach)) if reach else 0 for value in row]
        sums = [sum(int(w) * x for w, x in zip(unit, integers, strict=True)) for unit in weights]
        rows.append(np.array(sums) * float(reach) / 127 * 0.013 + bias)
    limits = {"RELU": (0, np.inf), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}
    low, high = limits.get(graph.nodes[0].attributes.activation, (-np.inf, np.inf))
    (result,) = interpret(graph, {0: given}).values()
    expected = np.clip(rows, low, high).reshape(result.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", [Op.CONV_2D, Op.FULLY_CONNECTED])
def test_layers_against_litert(op):
    interpreter = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="ai-edge-litert is not installed"
    )
    # LiteRT takes no convolution without a bias.
    layers = [layer for seed in range(20) if len((layer := instance(op, seed)).tensors) == 4]
    for seed, layer in enumerate(layers):
        content = write_tflite(layer)
        graph = frontend.load(content)
        assert graph.nodes[0].op is op
        runtime = interpreter.Interpreter(
            model_content=content,
            experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF,
        )
        runtime.allocate_tensors()
        given = np.random.default_rng(seed).standard_normal(graph.tensors[0].shape)
        runtime.set_tensor(0, given.astype(np.float32))
        runtime.invoke()
        (result,) = interpret(graph, {0: given.astype(np.float32)}).values()
        expected = runtime.get_tensor(graph.outputs[0])
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
