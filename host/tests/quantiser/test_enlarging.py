"""Networks that enlarge images or take maxima, quantised from ONNX files."""

import numpy as np
import pytest

import matloom
from matloom.errors import UserError
from matloom.quantiser import quantise
from support.float_onnx import FloatFile
from support.oracles import micro

pytest.importorskip("onnx", reason="onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def first(file, channels=8):
    weights = file.weights(channels, 3, 3, 3), file.bias(channels)
    return file.add("Relu", file.add("Conv", "image", *weights, pads=[1] * 4))


def last(file, name, channels, outputs=2):
    return file.add("Conv", name, file.weights(outputs, channels, 1, 1), file.bias(outputs))


def transposed(size=2, **options):
    groups = options.get("group", 1)
    file = FloatFile()
    weights = file.weights(8, 6 // groups, size, size), file.bias(6)
    made = file.add("ConvTranspose", first(file), *weights, **options)
    return file.content((1, 3, 7, 5), last(file, file.add("Relu", made), 6))


def shuffled(mode):
    file = FloatFile()
    made = file.add("DepthToSpace", first(file, 12), blocksize=2, mode=mode)
    return file.content((1, 3, 7, 5), last(file, made, 3))


def unshuffled():
    file = FloatFile()
    made = file.add("SpaceToDepth", first(file, 4), blocksize=2)
    return file.content((1, 3, 6, 4), last(file, made, 16))


def enlarged(*factors, mode="linear", **options):
    file = FloatFile()
    scales = file.constant(np.array([1, 1, *factors], np.float32))
    made = file.add("Resize", first(file), "", scales, mode=mode, **options)
    return file.content((1, 3, 7, 5), last(file, made, 8))


def padded(mode, pads):
    file = FloatFile()
    made = file.add("Pad", first(file), file.constant(np.array(pads)), mode=mode)
    return file.content((1, 3, 7, 5), last(file, made, 8))


def largest(axes, keep):
    """Return the maxima along axes of the file's order, which channels last may take apart."""
    file = FloatFile()
    made = file.add("ReduceMax", first(file), axes=axes, keepdims=keep)
    flat = file.add("Flatten", made)
    shape = [size for at, size in enumerate((1, 8, 7, 5)) if at not in axes]
    return file.content(
        (1, 3, 7, 5), file.add("MatMul", flat, file.weights(int(np.prod(shape)), 3))
    )


NETWORKS = {
    "2 x 2 at stride 2": transposed(strides=[2, 2]),
    "3 x 3, padding in the output": transposed(
        3, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]
    ),
    "4 x 4, as SAME": transposed(4, strides=[2, 2], pads=[1] * 4),
    "3 x 3, uneven": transposed(3, strides=[2, 1], pads=[2, 0, 0, 1]),
    "rows behind the last window": transposed(2, strides=[3, 3], output_padding=[2, 1]),
    "groups": transposed(2, strides=[2, 2], group=2),
    "a stated size": transposed(3, strides=[2, 2], output_shape=[14, 10]),
    "pixel shuffle": shuffled("CRD"),
    "depth to space": shuffled("DCR"),
    "space to depth": unshuffled(),
    "twice": enlarged(2, 2),
    "sixteen times": enlarged(16, 1),
    "edges": padded("edge", [0, 0, 1, 0, 0, 0, 2, 3]),
    "reflections": padded("reflect", [0, 0, 2, 1, 0, 0, 1, 3]),
    "many reflections": padded("reflect", [0, 0, 6, 4, 0, 0, 6, 4]),
    "three and four times": enlarged(3, 4, coordinate_transformation_mode="pytorch_half_pixel"),
    "one axis": enlarged(1, 2),
    "corners": enlarged(3, 2, coordinate_transformation_mode="align_corners"),
    "one and a half": enlarged(1.5, 1.4),
    "cubic": enlarged(2, 2, mode="cubic"),
    "maxima of positions": largest([2, 3], 0),
    "maxima of channels": largest([1], 1),
    "maxima of channels and columns": largest([1, 3], 0),
}


def samples_of(content, count, seed=0):
    shape = ort.InferenceSession(content).get_inputs()[0].shape
    return np.random.default_rng(seed).normal(0.3, 1, (count, *shape)).astype(np.float32)


def run(content, samples):
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    return np.array([session.run(None, {"image": sample})[0] for sample in samples])


def sqnr(exact, rounded):
    return 10 * np.log10(np.square(exact).sum() / np.square(exact - rounded).sum())


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("name", NETWORKS)
def test_files_of_both_formats_are_close_to_the_float_network(name):
    """TensorFlow Lite Micro runs one file, ONNX Runtime the other, and Matloom equals Micro."""
    content = NETWORKS[name]
    samples = samples_of(content, 20)
    made, samples = quantise(content, samples, calibration="minmax"), samples[:4]
    wanted = run(content, samples)
    assert sqnr(wanted, run(made.onnx(), samples)) > 25
    tensor, output = (made.graph.tensors[end[0]] for end in (made.graph.inputs, made.graph.outputs))
    integers = np.clip(np.rint(samples / tensor.scale) + tensor.zero_point, -128, 127)
    with matloom.load(made.content, "model", config="reference", check="sample") as session:
        assert all(layer.where == "engine" for layer in session.program.layers)
        for sample, exact in zip(integers.astype(np.int8), wanted, strict=True):
            expected = micro(made.content, [sample], 1)[0]
            assert np.array_equal(session.run(sample), expected)
            real = (expected.astype(np.float64) - output.zero_point) * output.scale
            assert sqnr(exact, real) > 25


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            enlarged(2, 2, coordinate_transformation_mode="tf_crop_and_resize"),
            "Resize, which makes 'value_2', resizes a part of its input",
        ),
        (padded("reflect", [0, 0, 7, 0, 0, 0, 0, 0]), "Pad, .*, pads 7 elements by 7 and 0"),
        (transposed(3, dilations=[2, 2]), "'value_2', has gaps in its window"),
        (transposed(2, strides=[2, 2], pads=[9] * 4), "rows or columns that no window reaches"),
    ],
)
def test_others_get_a_sentence(content, message):
    with pytest.raises(UserError, match=message):
        quantise(content, np.zeros((1, 1, 3, 7, 5), np.float32))
