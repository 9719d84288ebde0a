"""Functions of one number and normalisations of ONNX files, quantised as tables and products."""

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.errors import UserError
from matloom.ir.attributes import FullyConnected, Function
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.kernels.functions import FUNCTIONS, apply_function
from matloom.kernels.interpreter import interpret
from matloom.quantiser import quantise
from matloom.quantiser.run_nodes import outputs_of
from support.float_onnx import FloatFile

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def number(file, value):
    return file.constant(np.array(value, np.float32))


def gelu_of_erf(file, x):
    """Return GELU as PyTorch writes it."""
    inner = file.add("Erf", file.add("Div", x, number(file, 1.4142135)))
    outer = file.add("Mul", x, file.add("Add", inner, number(file, 1)))
    return file.add("Mul", outer, number(file, 0.5))


def gelu_of_tanh(file, x):
    cubed = file.add("Mul", file.add("Pow", x, number(file, 3)), number(file, 0.044715))
    inner = file.add("Mul", file.add("Add", x, cubed), number(file, 0.797885))
    outer = file.add("Add", number(file, 1), file.add("Tanh", inner))
    return file.add("Mul", file.add("Mul", number(file, 0.5), x), outer)


def rms(file, x):
    """Return an RMS normalisation, step by step."""
    mean = file.add("ReduceMean", file.add("Pow", x, number(file, 2)), axes=[-1])
    root = file.add("Sqrt", file.add("Add", mean, number(file, 1e-5)))
    return file.add("Mul", file.add("Div", x, root), file.bias(12))


def layer(file, x):
    return file.add("LayerNormalization", x, file.weights(12), file.bias(12))


def channels(file, x):
    """Return a layer normalisation of channels that the file has first."""
    turned = file.add("Transpose", x, perm=[0, 2, 1])
    scales = file.bias(7), file.bias(7)
    return file.add("Transpose", file.add("LayerNormalization", turned, *scales), perm=[0, 2, 1])


def instance(file, x):
    return file.add("InstanceNormalization", x, file.weights(7), file.bias(7))


def unary(op, **options):
    return lambda file, x: file.add(op, x, **options)


def root(file, x):
    return file.add("Add", file.add("Sqrt", file.add("Abs", x)), number(file, 1))


def cubed(file, x):
    return file.add("Pow", x, number(file, 3))


def normal_distribution(file, x):
    """Return exp(-x^2 / 2), step by step."""
    squared = file.add("Pow", x, number(file, 2))
    return file.add("Exp", file.add("Div", file.add("Neg", squared), number(file, 2)))


def product_of_two(file, x):
    """Return SiLU, which LOGISTIC and MUL compute."""
    return file.add("Mul", x, file.add("Sigmoid", x))


def of_limited(file, x):
    """Return a function of the output of RELU, whose scale no negative number needs."""
    return file.add("Exp", file.add("Neg", file.add("Relu", x)))


def quotient(file, x):
    """Return x over a computed number that is not a function of x alone."""
    total = file.add("ReduceSum", file.add("Abs", x), file.constant(np.array([-1], np.int64)))
    return file.add("Div", x, file.add("Add", total, number(file, 0.1)))


def choice(file, x):
    """Return Softplus as PyTorch writes it, with a threshold."""
    large = file.add("Greater", x, number(file, 0.5))
    return file.add("Where", large, x, file.add("Softplus", x))


def unit_rows(file, x):
    """Return rows of length one, as `torch.nn.functional.normalize` has them."""
    norm = file.add("Clip", file.add("ReduceL2", x, axes=[-1]), number(file, 1e-12))
    shape = file.constant(np.array([1, 7, 12], np.int64))
    return file.add("Div", x, file.add("Expand", norm, shape))


def largest_of_expanded(file, x):
    """Return what an operator that does not broadcast reads of a value that one has expanded."""
    mean = file.add("ReduceMean", x, axes=[-1])
    whole = file.add("Expand", mean, file.constant(np.array([1, 7, 12], np.int64)))
    return file.add("Concat", file.add("Slice", x, *parts(file)), whole, axis=1)


def parts(file):
    return [file.constant(np.array([each], np.int64)) for each in (0, 3, 1)]


def reduction(op, **options):
    return lambda file, x: file.add("Mul", x, file.add(op, x, axes=[-1], **options))


#: What makes each function, and the operators that it becomes.
CASES = {
    "GELU by Erf": (gelu_of_erf, [Op.FUNCTION]),
    "GELU by Tanh": (gelu_of_tanh, [Op.FUNCTION]),
    "absolute values": (unary("Abs"), [Op.FUNCTION]),
    "exponentials": (unary("Exp"), [Op.FUNCTION]),
    "ELU": (unary("Elu"), [Op.FUNCTION]),
    "negative": (unary("Neg"), [Op.MUL]),
    "RMS": (rms, [Op.MUL, Op.MEAN, Op.FUNCTION, Op.MUL]),
    "square root": (root, [Op.FUNCTION]),
    "cube": (cubed, [Op.FUNCTION]),
    "normal distribution": (normal_distribution, [Op.FUNCTION]),
    "SiLU": (product_of_two, [Op.LOGISTIC, Op.MUL]),
    "function of limited numbers": (of_limited, [Op.RELU, Op.FUNCTION]),
    "quotient": (quotient, [Op.FUNCTION, Op.SUM, Op.FUNCTION, Op.MUL]),
    "ELU of another slope": (unary("Elu", alpha=0.5), [Op.FUNCTION]),
    "Celu": (unary("Celu", alpha=0.7), [Op.FUNCTION]),
    "Cos": (unary("Cos"), [Op.FUNCTION]),
    "Erf": (unary("Erf"), [Op.FUNCTION]),
    "HardSigmoid": (unary("HardSigmoid", alpha=0.3), [Op.FUNCTION]),
    "Mish": (unary("Mish"), [Op.FUNCTION]),
    "Mean of two": (lambda file, x: file.add("Mean", x, file.add("Tanh", x)), None),
    "unit rows": (unit_rows, [Op.MUL, Op.SUM, Op.FUNCTION, Op.MUL]),
    "LpNormalization": (unary("LpNormalization"), [Op.MUL, Op.SUM, Op.FUNCTION, Op.MUL]),
    "LpNormalization, p = 1": (unary("LpNormalization", p=1), [Op.FUNCTION, Op.SUM, Op.MAXIMUM]),
    "expanded": (largest_of_expanded, None),
    **{
        op: (reduction(op), None)
        for op in ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMin", "ReduceSumSquare")
    },
    "Selu": (unary("Selu"), [Op.FUNCTION]),
    "Shrink": (unary("Shrink", lambd=0.1, bias=0.05), [Op.FUNCTION]),
    "Sin": (unary("Sin"), [Op.FUNCTION]),
    "Softplus": (unary("Softplus"), [Op.FUNCTION]),
    "Softplus with a threshold": (choice, [Op.FUNCTION]),
    "Softsign": (unary("Softsign"), [Op.FUNCTION]),
    "ThresholdedRelu": (unary("ThresholdedRelu", alpha=0.2), [Op.FUNCTION]),
    "layer": (layer, [Op.MEAN, Op.SUB, Op.MUL, Op.MEAN, Op.ADD, Op.FUNCTION, Op.MUL]),
    "channels": (channels, None),
    "instance": (instance, None),
}


def network(name):
    """Return a dense layer, a function, and another dense layer, on 7 rows of 12."""
    file = FloatFile()
    made, _operators = CASES[name]
    first = file.add("Add", file.add("MatMul", "image", file.weights(12, 12)), file.bias(12))
    second = file.add("MatMul", made(file, first), file.weights(12, 12))
    return file.content((1, 7, 12), second, opset=18 if name == "Mish" else 17)


def samples(count):
    return np.random.default_rng(3).normal(0, 0.5, (count, 1, 7, 12)).astype(np.float32)


def run(content, given):
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    return np.array([session.run(None, {"image": each})[0] for each in given])


def sqnr(exact, rounded):
    return 10 * np.log10(np.square(exact).sum() / np.square(exact - rounded).sum())


@pytest.mark.parametrize("name", CASES)
def test_floats_equal_onnx_runtime(name):
    content, given = network(name), samples(3)
    graph = frontend.load_floats(content)
    (found,) = outputs_of(graph, {graph.inputs[0]: given})
    assert np.allclose(found, run(content, given), rtol=1e-4, atol=1e-4)
    operators = CASES[name][1]
    if operators is not None:
        between = [node.op for node in graph.nodes if node.op not in (Op.FULLY_CONNECTED,)]
        # Factors and offsets by channel are separate operators until `prepare`.
        assert between[1 : 1 + len(operators)] == operators
    forms = {"GELU by Erf": "GELU", "GELU by Tanh": "GELU_TANH"}
    found = [node.attributes for node in graph.nodes if node.op is Op.FUNCTION]
    if name in forms:
        assert found == [Function(function=forms[name])]


@pytest.mark.parametrize("name", CASES)
def test_files_of_both_formats_are_close(name):
    """The engine runs all of the .tflite file; ONNX Runtime runs the other one."""
    content, given = network(name), samples(20)
    made = quantise(content, given, calibration="minmax")
    wanted = run(content, given[:4])
    assert sqnr(wanted, run(made.onnx(), given[:4])) > 24
    config = "reference+products=2"
    with matloom.load(made.content, "model", config=config, check="sample") as session:
        assert {layer.where for layer in session.program.layers} == {"engine"}
        found = [session.dequantise(session.run(session.quantise(each))) for each in given[:4]]
    assert sqnr(wanted, np.array(found)) > 24


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("zero", [-128, -20])
def test_bytes_are_those_of_litert(name, zero):
    """Its kernels have tables or fixed-point arithmetic: hardly a byte differs, by one step."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    positive = name in ("LOG", "RSQRT")
    if positive and zero != -128:
        pytest.skip("its kernels refuse numbers below zero")
    given = Quantisation(scale=(0.03,), zero_point=(zero,))
    numbers = 0.03 * (np.arange(-128, 128) - zero)
    results = apply_function(name, numbers[1:] if positive else numbers)
    step = float(np.float32((max(results.max(), 0) - min(results.min(), 0)) / 255))
    made = Quantisation(scale=(step,), zero_point=(round(-128 - min(results.min(), 0) / step),))
    builder = GraphBuilder(name)
    x = builder.input("x", (1, 256), "int8", given)
    graph = builder.graph(builder.add(Op.FUNCTION, [x], Function(function=name), quantisation=made))
    every = np.arange(-128, 128).astype(np.int8)[np.newaxis]
    found = interpret(graph, {x: every})[graph.outputs[0]]
    runner = litert.Interpreter(model_content=frontend.write(graph)[1])
    runner.allocate_tensors()
    runner.set_tensor(runner.get_input_details()[0]["index"], every)
    runner.invoke()
    wanted = runner.get_tensor(runner.get_output_details()[0]["index"])
    difference = np.abs(found.astype(int) - wanted.astype(int))
    assert difference.max() <= 1
    assert np.count_nonzero(difference) <= 4


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_float_tflite_files(name):
    """Operators that LiteRT runs in floats become tables of a quantised network."""
    pytest.importorskip("ai_edge_litert.interpreter")
    random, builder = np.random.default_rng(0), GraphBuilder(name)
    x = builder.input("x", (4, 12), "float32")
    weights = [builder.constant(random.uniform(0, 1, (12, 12)).astype(np.float32)) for _ in "ab"]
    made = builder.add(Op.FULLY_CONNECTED, [x, weights[0]], FullyConnected())
    made = builder.add(Op.FUNCTION, [made], Function(function=name))
    graph = builder.graph(builder.add(Op.FULLY_CONNECTED, [made, weights[1]], FullyConnected()))
    content = frontend.write(graph)[1]
    given = random.uniform(0.1, 0.4, (12, 4, 12)).astype(np.float32)
    quantised = quantise(content, given, calibration="minmax")
    with matloom.load(quantised.content, "model", config="reference") as session:
        assert {layer.where for layer in session.program.layers} == {"engine"}
        found = [session.dequantise(session.run(session.quantise(each))) for each in given]
    (wanted,) = outputs_of(graph, {x: given})
    assert sqnr(wanted, np.array(found)) > 24


def powers(file, x):
    return file.add("Pow", x, file.constant(np.arange(12, dtype=np.float32)))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (powers, "Pow, which makes '.*', has exponents that differ"),
        (unary("Hardmax"), "Hardmax, which makes '.*', has no integer form"),
    ],
)
def test_others_get_a_sentence(made, message):
    file = FloatFile()
    first = file.add("MatMul", "image", file.weights(12, 12))
    with pytest.raises(UserError, match=message):
        quantise(file.content((1, 7, 12), made(file, first)), samples(2))
