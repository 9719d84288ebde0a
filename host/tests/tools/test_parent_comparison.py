"""Quantised ONNX networks against their float originals, layer by layer."""

import numpy as np
import pytest

from matloom.tools.parent_comparison import compare_with_parent

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

#: Real values inside the network, and those that quantisation replaces by the result of their Relu.
INNER = ("value_0", "value_1", "value_2", "value_3", "value_4", "value_5", "y")
#: As many channels as rows and columns, so that shapes do not tell the order of axes.
CHANNELS = 8


@pytest.fixture
def parent(tmp_path):
    """Return the path of a float network: two convolutions, one with Relu, and a dense layer."""
    random = np.random.default_rng(0)

    def constant(name, *shape):
        return onnx.numpy_helper.from_array(
            random.normal(0, 0.3, shape).astype(np.float32), name=name
        )

    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    kernel = {"kernel_shape": [3, 3], "pads": [1] * 4}
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["value_0"], **kernel),
        node("Relu", ["value_0"], ["value_1"]),
        node("Conv", ["value_1", "w2", "b2"], ["value_2"], **kernel),
        node("Add", ["value_2", "value_1"], ["value_3"]),
        node("GlobalAveragePool", ["value_3"], ["value_4"]),
        node("Flatten", ["value_4"], ["value_5"]),
        node("Gemm", ["value_5", "w3", "b3"], ["y"], transB=1),
    ]
    weights = [
        constant("w1", CHANNELS, 3, 3, 3),
        constant("b1", CHANNELS),
        constant("w2", CHANNELS, CHANNELS, 3, 3),
        constant("b2", CHANNELS),
        constant("w3", 10, CHANNELS),
        constant("b3", 10),
    ]
    ends = [
        [info("x", onnx.TensorProto.FLOAT, [1, 3, CHANNELS, CHANNELS])],
        [info("y", onnx.TensorProto.FLOAT, [1, 10])],
    ]
    graph = onnx.helper.make_graph(nodes, "parent", *ends, weights)
    opset = onnx.helper.make_opsetid("", 17)
    path = tmp_path / "parent.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


@pytest.fixture
def samples():
    return np.random.default_rng(1).normal(0, 1, (6, 1, 3, CHANNELS, CHANNELS)).astype(np.float32)


def run_inside(path, names, samples):
    """Return values inside a network, by name, of all samples, as ONNX Runtime computes them."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    there = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=each) for each in names if each not in there)
    session = runtime.InferenceSession(model.SerializeToString())
    found = [session.run(list(names), {"x": x}) for x in samples]
    return dict(zip(names, map(np.stack, zip(*found, strict=True)), strict=True))


def decibels(expected, found):
    return 10 * np.log10(np.square(expected).sum() / np.square(found - expected).sum())


def quantised(parent, samples, layout, dtype):
    quantisation = pytest.importorskip("onnxruntime.quantization")

    class Samples(quantisation.CalibrationDataReader):
        def __init__(self):
            self.left = iter(samples)

        def get_next(self):
            x = next(self.left, None)
            return None if x is None else {"x": x}

    path = parent.with_name("quantised.onnx")
    quantisation.quantize_static(
        parent,
        path,
        Samples(),
        quant_format=quantisation.QuantFormat[layout],
        activation_type=quantisation.QuantType[dtype],
        weight_type=quantisation.QuantType.QInt8,
        # Products of uint8 and int8 may overflow in ONNX Runtime, but not with seven bits.
        reduce_range=True,
    )
    return path


@pytest.mark.parametrize("dtype", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("layout", ["QDQ", "QOperator"])
def test_errors_are_those_that_onnx_runtime_finds(parent, samples, layout, dtype):
    """Each layer has the noise of ONNX Runtime's own values, whatever the file calls them."""
    path = quantised(parent, samples, layout, dtype)
    outcome = compare_with_parent(path, parent, {"x": samples})
    assert outcome.samples == len(samples)
    assert outcome.unmatched == ()
    # QLinearConv includes the Relu, but its result has the name of the convolution's.
    relu = "value_0" if layout == "QOperator" else "value_1"
    pairs = {relu: "value_1", **{name: name for name in INNER[2:]}}
    suffix = "_quantized" if layout == "QOperator" else "_DequantizeLinear_Output"
    wanted = run_inside(parent, sorted(set(pairs.values())), samples)
    found = real_values(path, [*pairs], suffix, samples)
    for name, original in pairs.items():
        noise = decibels(wanted[original], found[name])
        (layer,) = (each for each in outcome.layers if each.tensor.split(" ")[0] in names_of(name))
        assert layer.sqnr_db == pytest.approx(noise, abs=0.05)
        assert noise > 20


def names_of(name):
    """Return the names that a value's tensor may have; of the output, that of the float."""
    ends = ("",) if name == "y" else ("_quantized", "_QuantizeLinear_Output")
    return {name + end for end in ends}


def real_values(path, names, suffix, samples):
    """Return the real numbers of quantised values, by name, as ONNX Runtime computes them."""
    inside = {name: name if name == "y" else name + suffix for name in names}
    values = run_inside(path, list(inside.values()), samples)
    found = {name: values[inside[name]] for name in names}
    if suffix == "_quantized":
        constants = {
            each.name: onnx.numpy_helper.to_array(each)
            for each in onnx.load(path).graph.initializer
        }
        for name in set(names) - {"y"}:
            # Flatten has no scale of its own.
            scaled = "value_4" if name == "value_5" else name
            scale, zero = (constants[f"{scaled}_{what}"] for what in ("scale", "zero_point"))
            found[name] = (found[name].astype(np.float32) - np.float32(zero)) * scale
    return found


@pytest.mark.parametrize("suffix", [".onnx", ".tflite"])
def test_networks_that_matloom_quantised_keep_the_names(parent, samples, suffix):
    """The .tflite file has channels last, which one shape of this network cannot show."""
    from matloom.quantiser import quantise

    path = parent.with_name(f"own{suffix}")
    quantise(parent, {"x": samples}).save(path)
    outcome = compare_with_parent(path, parent, {"x": samples})
    names = [layer.tensor.split("_quantized")[0] for layer in outcome.layers]
    assert names[:5] == ["value_1", "value_2", "value_3", "value_4", "value_5"]
    assert all(layer.sqnr_db > 30 for layer in outcome.layers)
