"""Networks as C: kernels against the reference's, bit for bit, and a whole network on the chip."""

import os
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from single_operators.lstm import LstmFile

import firmware
import matloom
from matloom import cli, frontend
from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.device.rtl import build as build_simulator
from matloom.frontend.opaque import file_tensor, whole_network_node
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import INTERPRETERS, Attributes, Axis, LeakyRelu, Softmax
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.kernels.interpreter import interpret
from matloom.tools.emit_c import EmitError, emit_c, write_c
from matloom.verification.random_operators import RandomOperators
from support.oracles import micro
from support.quantised_onnx import QuantisedFile, expected

#: Runs a network for each of its inputs on standard input.
MAIN = """
#include <stdio.h>
#include "NET.h"
#include "BOARD.h"
int main(void) {
  static struct matloom_engine engine;
  OPEN
  while (INPUTS) {
    if (net_run(&engine) != MATLOOM_OK) return 3;
    OUTPUTS
  }
  return 0;
}
"""
CHIP = """
  const struct matloom_port port = board_port();
  const struct matloom_memory memory = board_memory();
  if (matloom_probe(&engine, &port) != MATLOOM_OK) return 1;
  if (net_open(&engine, &memory) != MATLOOM_OK) return 2;
"""
FAKE = """
  static struct fake fake;
  const struct matloom_port port = fake_port(&fake);
  const struct matloom_memory memory = fake_memory(&fake);
  fake_open(&fake, DIGESTu);
  if (matloom_probe(&engine, &port) != MATLOOM_OK) return 1;
  if (net_open(&engine, &memory) != MATLOOM_OK) return 2;
"""


def run(build, folder, program, data, *, board="fake_bus", status=0):
    """Return the outputs of a program in C for several inputs; `status` is its exit status."""
    write_c(program, folder / "net.c")
    given, made = (
        ["net_" + re.sub("[^a-z0-9]+", "_", info.name.lower()).strip("_") for info in side]
        for side in (program.inputs, program.outputs)
    )
    writes = " ".join(f"fwrite({name}, sizeof {name}, 1, stdout);" for name in made)
    reads = " && ".join(f"fread({name}, sizeof {name}, 1, stdin) == 1" for name in given)
    text = MAIN.replace("OPEN", FAKE if board == "fake_bus" else CHIP)
    for word, value in (
        *(("NET", "net"), ("BOARD", "fake_bus" if board == "fake_bus" else "board")),
        *(("INPUTS", reads), ("OUTPUTS", writes), ("DIGEST", str(program.config.digest))),
    ):
        text = text.replace(word, value)
    (folder / "main.c").write_text(text)
    kernels = sorted((firmware.FIRMWARE / "kernels").glob("*.c"))
    sources = [*kernels, f"tests/{board}.c", folder / "net.c", folder / "main.c"]
    # Every test has a folder, and so a program, of its own name.
    binary = build.program(folder.name, *sources, flags=["-ldl"])
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    if board == "simulator":
        environment["MATLOOM_SIMULATOR"] = str(build_simulator(program.config))
    done = subprocess.run([binary], input=data, capture_output=True, env=environment, check=False)
    assert done.returncode == status, done.stderr.decode()
    return done.stdout


def one_node(op, attributes, given, made):
    """Return a network of one operator."""
    node = Node(op=op, inputs=(0,), outputs=(1,), attributes=attributes, index=0)
    return Graph(name="one", inputs=(0,), outputs=(1,), tensors={0: given, 1: made}, nodes=(node,))


def tensor(name, shape, dtype, scale=None, zero=0):
    quantisation = None if scale is None else Quantisation(scale=(scale,), zero_point=(zero,))
    return Tensor(name=name, shape=shape, dtype=dtype, quantisation=quantisation)


def integers(dtype):
    def draw(noise, shape):
        limits = np.iinfo(dtype)
        return noise.integers(limits.min, limits.max, shape, dtype, endpoint=True)

    return draw


def floats(noise, shape):
    """Return floats of all kinds: halves, infinities, NaN."""
    values = noise.normal(0, 40, shape).astype(np.float32)
    values.flat[:8] = [np.nan, np.inf, -np.inf, 0.5, -0.5, 1e30, -1e-40, 2.5]
    return values


CASES = {
    "softmax": (
        *(Op.SOFTMAX, Softmax(beta=1.0)),
        tensor("x", (7, 33), "int8", 0.11, 5),
        tensor("y", (7, 33), "int8", 1 / 256, -128),
        integers("int8"),
    ),
    "softmax of wide differences": (
        *(Op.SOFTMAX, Softmax(beta=2.0)),
        tensor("x", (3, 9), "int8", 3.5, 0),
        tensor("y", (3, 9), "int8", 1 / 256, -128),
        integers("int8"),
    ),
    "softmax of small differences": (
        *(Op.SOFTMAX, Softmax(beta=1.0)),
        tensor("x", (2, 500), "int8", 0.0001, 0),
        tensor("y", (2, 500), "int8", 1 / 256, -128),
        integers("int8"),
    ),
    "log softmax": (
        *(Op.LOG_SOFTMAX, Attributes()),
        tensor("x", (7, 33), "int8", 0.11, 5),
        tensor("y", (7, 33), "int8", 1 / 16, 127),
        integers("int8"),
    ),
    "log softmax of wide differences": (
        *(Op.LOG_SOFTMAX, Attributes()),
        tensor("x", (5, 9), "int8", 3.5, 0),
        tensor("y", (5, 9), "int8", 1 / 16, 127),
        integers("int8"),
    ),
    "log softmax of small differences": (
        *(Op.LOG_SOFTMAX, Attributes()),
        tensor("x", (2, 4000), "int8", 0.0001, 0),
        tensor("y", (2, 4000), "int8", 1 / 16, 127),
        integers("int8"),
    ),
    "quantize int8": (
        *(Op.QUANTIZE, Attributes()),
        tensor("x", (5, 40), "float32"),
        tensor("y", (5, 40), "int8", 0.37, -3),
        floats,
    ),
    "quantize uint8": (
        *(Op.QUANTIZE, Attributes()),
        tensor("x", (5, 40), "float32"),
        tensor("y", (5, 40), "uint8", 0.5, 128),
        floats,
    ),
    "quantize int16": (
        *(Op.QUANTIZE, Attributes()),
        tensor("x", (5, 40), "float32"),
        tensor("y", (5, 40), "int16", 0.001, 0),
        floats,
    ),
    "requantize": (
        *(Op.QUANTIZE, Attributes()),
        tensor("x", (256,), "uint8", 0.3, 77),
        tensor("y", (256,), "int8", 0.11, -5),
        integers("uint8"),
    ),
    "dequantize int8": (
        *(Op.DEQUANTIZE, Attributes()),
        tensor("x", (256,), "int8", 0.0123, -7),
        tensor("y", (256,), "float32"),
        integers("int8"),
    ),
    "dequantize int16": (
        *(Op.DEQUANTIZE, Attributes()),
        tensor("x", (256,), "int16", 0.0123, 0),
        tensor("y", (256,), "float32"),
        integers("int16"),
    ),
    "argmax": (
        *(Op.ARG_MAX, Axis(axis=1)),
        tensor("x", (4, 30, 5), "int8", 1.0),
        tensor("y", (4, 5), "int32"),
        integers("int8"),
    ),
    "argmin of floats": (
        *(Op.ARG_MIN, Axis(axis=1)),
        tensor("x", (4, 20), "float32"),
        tensor("y", (4,), "int32"),
        floats,
    ),
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CASES)
def test_kernels(name, build, tmp_path):
    op, attributes, given, made, draw = CASES[name]
    graph = one_node(op, attributes, given, made)
    program = compile_network(graph, "nano", check="none")
    assert [step.kind for step in program.steps] == ["host"]
    noise = np.random.default_rng(3)
    arrays = [draw(noise, given.shape) for _ in range(20)]
    found = run(build, tmp_path, program, b"".join(array.tobytes() for array in arrays))
    wanted = [interpret(graph, {0: array})[1] for array in arrays]
    assert found == b"".join(np.ascontiguousarray(array).tobytes() for array in wanted)


#: Operators by table, with scale and zero point of what they make; of the second two any.
TABLES = {
    Op.LOGISTIC: (Attributes(), 1 / 256, -128),
    Op.TANH: (Attributes(), 1 / 128, 0),
    Op.HARD_SWISH: (Attributes(), 0.043, -119),
    Op.LEAKY_RELU: (LeakyRelu(alpha=-0.17), 0.031, 12),
}


def check_all_integers(graph, dtype, distinct, build, tmp_path):
    """Compare all inputs of a function, which has more than `distinct` results, with Micro."""
    limits = np.iinfo(dtype)
    every = np.arange(limits.min, limits.max + 1).astype(dtype)[np.newaxis]
    (wanted,) = micro(write_tflite(graph), [every], 1)
    assert len(np.unique(wanted)) > distinct
    program = compile_network(graph, "nano", check="none")
    assert [step.kind for step in program.steps] == ["host"]
    assert run(build, tmp_path, program, every.tobytes()) == wanted.tobytes()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("op", TABLES)
@pytest.mark.parametrize(("scale", "zero"), [(0.047, 3), (0.011, -128)])
def test_tables_are_those_of_tflite_micro(op, scale, zero, build, tmp_path):
    """The kernel itself is derived from our own definitions."""
    attributes, made_scale, made_zero = TABLES[op]
    given = tensor("x", (1, 256), "int8", scale, zero)
    graph = one_node(op, attributes, given, tensor("y", (1, 256), "int8", made_scale, made_zero))
    check_all_integers(graph, np.int8, 20, build, tmp_path)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("op", [Op.LOGISTIC, Op.TANH])
@pytest.mark.parametrize("scale", [2**-12, 2**-11, 0.0061, 0.00003])
def test_curves_are_those_of_tflite_micro(op, scale, build, tmp_path):
    shape = (1, 2**16)
    made = tensor("y", shape, "int16", 2**-15, 0)
    graph = one_node(op, Attributes(), tensor("x", shape, "int16", scale, 0), made)
    check_all_integers(graph, np.int16, 1000, build, tmp_path)


def test_digits_on_the_chip(build, tmp_path):
    """Run the whole network, including SOFTMAX, from images to probabilities."""
    graph = frontend.load(NETWORK)
    images = np.random.default_rng(4).integers(-128, 128, (3, 1, 8, 8, 1), np.int8)
    program = compile_network(graph, PRESETS["nano"])
    found = run(build, tmp_path, program, images.tobytes(), board="simulator")
    wanted = [interpret(graph, {graph.inputs[0]: image})[graph.outputs[0]] for image in images]
    assert found == b"".join(array.tobytes() for array in wanted)


@pytest.mark.parametrize("dtype", [np.uint8, pytest.param(np.int8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", ["classes", pytest.param("maps", marks=pytest.mark.slow)])
def test_onnx_on_the_chip(form, dtype, build, tmp_path):
    """Floats in and out, as ONNX Runtime has them: quantised, transposed, with its softmax."""
    network = QuantisedFile([1, 3, 6, 5], dtype)
    network.weighted("QLinearConv", (4, 3, 3, 3), [0.0131137] * 4, (0.3171371, 5))
    if form == "classes":
        network.move("Flatten", axis=1)
        network.weighted("QLinearMatMul", (48, 10), 0.0217131, (11.4131371, 3))
        network.quantised = network.quantisation(0.0331717, 3)
        made = network.quantisation(1 / 256, -128)
        names = [network.last, *network.quantised, *made]
        network.last = network.add("QLinearSoftmax", names, "com.microsoft", axis=-1, opset=17)
        network.quantised = made
    content = network.content()
    program = compile_network(frontend.load(content), PRESETS["nano"], check="none")
    given = [2 * np.random.default_rng(at).standard_normal((1, 3, 6, 5)) for at in range(8)]
    given = [each.astype(np.float32) for each in given]
    # Halves, and what no integer holds.
    given[0].flat[:6] = np.array([0.5, 1.5, -2.5, 1e30, -1e30, np.inf]) * np.float32(0.0313717)
    data = b"".join(each.tobytes() for each in given)
    found = run(build, tmp_path, program, data, board="simulator")
    wanted = [expected(content, each) for each in given]
    assert len(np.unique(wanted)) > 20
    assert found == b"".join(each.tobytes() for each in wanted)
    assert len(emit_c(program, "net")[0]) < 6 * len(program.to_bytes())


@pytest.mark.parametrize("time_major", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_lstm_on_the_chip(time_major, build, tmp_path):
    """Steps of an LSTM in C between products on the chip, over calls that keep its state."""
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed"
    )
    content = LstmFile(batch=2, time_major=time_major).content(3)
    graph = frontend.load(content)
    shape = graph.tensors[graph.inputs[0]].shape
    given = np.random.default_rng(8).integers(-128, 128, (6, *shape), np.int8)
    wanted = frame_by_frame(runtime.Interpreter.from_bytes(content), given)
    assert len(np.unique(wanted)) > 40
    program = compile_network(graph, "nano", check="none")
    assert program.macs == program.engine_macs
    assert run(build, tmp_path, program, given.tobytes(), board="simulator") == wanted.tobytes()


def onnx_control(pick):
    """Return an ONNX network of `support.control_onnx`, inputs, and ONNX Runtime's outputs."""
    control = pytest.importorskip("support.control_onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    content = pick(control)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    given = []
    for seed, iterations in enumerate((3, 0, 1, 7)):
        draw = np.random.default_rng(seed)
        flags = {"n": np.array(iterations), "p": np.array(seed != 2)}
        given.append(
            {
                value.name: flags[value.name]
                if value.name in flags
                else draw.integers(-128, 128, value.shape).astype(np.int8)
                for value in session.get_inputs()
            }
        )
    return content, given, [session.run(None, each) for each in given]


def tflite_control(pick):
    """Return a file of `support.control_tflite`, inputs, and LiteRT's outputs."""
    control = pytest.importorskip("support.control_tflite")
    content = pick(control).content()
    program = matloom.compile(content, "nano", check="none")
    draw = np.random.default_rng(1)
    images = draw.integers(-128, 128, (3, 1, 6, 5, 4)).astype(np.int8)
    flags = {"c": np.array([[True], [False], [True]]), "i": np.array([[0], [5], [2]], np.int32)}
    given = [
        {info.name: flags.get(info.name, images)[at] for info in program.inputs} for at in range(3)
    ]
    return content, given, [list(control.expected(content, each).values()) for each in given]


@pytest.mark.parametrize(
    ("source", "pick", "loops"),
    [
        (onnx_control, lambda control: control.OPEN_LOOPS["early end"], 1),
        (tflite_control, lambda control: control.layers_in_a_loop(counted=False), 2),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (onnx_control, lambda control: control.OPEN_LOOPS["count"], 1),
                (onnx_control, lambda control: control.OPEN_LOOPS["count and condition"], 1),
                (onnx_control, lambda control: control.OPEN_LOOPS["value from outside"], 1),
                (onnx_control, lambda control: control.loop(3, stacked=True, other="ArgMax"), 1),
                (onnx_control, lambda control: control.NETWORKS["If"][0], 0),
                (onnx_control, lambda control: control.NETWORKS["Loop"][0], 0),
                (onnx_control, lambda control: control.NETWORKS["Loop, all iterations"][0], 0),
                (onnx_control, lambda control: control.NETWORKS["Loop that may end"][0], 0),
                (onnx_control, lambda control: control.NETWORKS["Scan"][0], 0),
                (onnx_control, lambda control: control.NETWORKS["Scan, other axes"][0], 0),
                (tflite_control, lambda control: control.layers_in_branches(), 0),
            )
        ),
    ],
)
def test_branches_and_loops_on_the_chip(source, pick, loops, build, tmp_path):
    """Inputs decide the number of iterations; the same program runs all of them in turn."""
    content, given, wanted = source(pick)
    program = matloom.compile(content, "nano", check="none", exact=True)
    assert sum(map(len, program.loops.values())) == loops
    data = b"".join(
        each[info.name].astype(info.dtype).tobytes() for each in given for info in program.inputs
    )
    found = run(build, tmp_path, program, data, board="simulator")
    assert found == b"".join(np.asarray(array).tobytes() for each in wanted for array in each)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize(("dtype", "axis"), [("int8", 0), ("float32", 1), ("int16", 2)])
def test_gather(dtype, axis, index, build, tmp_path):
    """An index out of range ends the run with an error."""
    noise, shape = np.random.default_rng(axis), (3, 4, 5)
    builder = GraphBuilder("gather")
    table = noise.integers(-100, 100, shape).astype(dtype)
    ids = builder.input("ids", (2, 3), index)
    attributes = Axis(axis=axis)
    graph = builder.graph(builder.add(Op.GATHER, [builder.constant(table), ids], attributes))
    program = compile_network(graph, "nano", check="none")
    given = noise.integers(0, shape[axis], (4, 2, 3)).astype(index)
    found = run(build, tmp_path, program, given.tobytes())
    assert found == b"".join(np.take(table, each, axis).tobytes() for each in given)
    for wrong in (-1, shape[axis]):
        given[1, 1, 2] = wrong
        assert run(build, tmp_path, program, given.tobytes(), status=3) == found[: len(found) // 4]


def test_an_operator_without_a_kernel_is_named():
    graph = RandomOperators([11, 7], "uint8").make(Op.MUL)
    program = compile_network(graph, "nano", check="none")
    with pytest.raises(EmitError, match="there is none for MUL from uint8 to uint8"):
        emit_c(program, "net")


def test_operators_of_a_reference_interpreter_are_named():
    graph = RandomOperators([11, 7], "int8").make(Op.TANH)
    file = len(graph.tensors)
    node = whole_network_node(
        ["TANH"], "a test", (*graph.inputs, file), graph.outputs, INTERPRETERS
    )
    tensors = {**graph.tensors, file: file_tensor(write_tflite(graph))}
    opaque = replace(graph, tensors=tensors, nodes=(node,))
    with pytest.raises(EmitError, match="there is none for TANH from int8 to int8"):
        emit_c(compile_network(opaque, "nano", check="none"), "net")


@pytest.mark.parametrize("op", [Op.QUANTIZE, Op.DEQUANTIZE])
def test_scales_by_channel_have_no_kernel(op):
    """Such a tensor has no single scale, and a Program file does not store them."""
    channels = Quantisation(scale=(0.1, 0.2, 0.3), zero_point=(0, 0, 0), axis=1)
    integers = replace(tensor("q", (2, 3), "int8"), quantisation=channels)
    ends = (tensor("r", (2, 3), "float32"), integers)
    given, made = ends if op is Op.QUANTIZE else ends[::-1]
    graph = one_node(op, Attributes(), given, made)
    with pytest.raises(EmitError, match=f"{op} from {given.dtype} to {made.dtype}"):
        emit_c(compile_network(graph, "nano", check="none"), "net")


def test_names(tmp_path):
    program = compile_network(frontend.load(NETWORK), "nano")
    with pytest.raises(
        ValueError, match="in C must be a letter, then letters, digits and _, not 'my-net'"
    ):
        write_c(program, tmp_path / "my-net.c")


def test_command(tmp_path):
    """The command line writes both files."""
    output = tmp_path / "digits.c"
    arguments = ["compile", str(NETWORK), "--config", "nano", "--emit", "c", "-o", str(output)]
    result = CliRunner().invoke(cli.cli, arguments)
    assert result.exit_code == 0, result.output
    assert "enum matloom_result digits_run(" in output.with_suffix(".h").read_text()
    assert (
        "matloom_softmax_int8(digits_probabilities, digits_logits, 1u, 10u," in output.read_text()
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kws_ref_model", "pretrainedResnet_quant"])
def test_collection_on_the_chip(name, build, tmp_path, models):
    """Keyword spotting and image classification of MLPerf Tiny in C, bit for bit."""
    (path,) = models.rglob(f"{name}.tflite")
    graph = frontend.load(path)
    shape = graph.tensors[graph.inputs[0]].shape
    array = np.random.default_rng(5).integers(-128, 128, shape, np.int8)
    program = compile_network(graph, PRESETS["nano"], check="none")
    found = run(build, tmp_path, program, array.tobytes(), board="simulator")
    assert found == interpret(graph, {graph.inputs[0]: array})[graph.outputs[0]].tobytes()


def frame_by_frame(interpreter, frames):
    """Return TensorFlow Lite Micro's outputs after each frame, with its state kept."""
    found = []
    for frame in frames:
        interpreter.set_input(frame, 0)
        interpreter.invoke()
        found.append(interpreter.get_output(0).copy())
    return np.concatenate(found)


@pytest.mark.slow
@pytest.mark.parametrize("tables", [0, 1])
def test_a_wake_word_remembers(tables, build, tmp_path, wild):
    """Run 100 frames in sequence; variables stay in the engine's memory from call to call.

    Other words have probability 0, so the network returns its logit as well.
    """
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed"
    )
    (path,) = wild.rglob("hey_jarvis.tflite")
    graph = frontend.load(path)
    (logit,) = (node.inputs[0] for node in graph.nodes if node.op is Op.LOGISTIC)
    frames = spectra(100, graph.tensors[graph.inputs[0]].shape)
    interpreters = (
        runtime.Interpreter.from_bytes(write_tflite(replace(graph, outputs=(logit,)))),
        runtime.Interpreter.from_file(str(path)),
    )
    wanted = np.stack([frame_by_frame(each, frames).view(np.uint8) for each in interpreters], 1)
    assert len(np.unique(wanted[:, 0])) > 20, "the logit must move"
    # Its LOGISTIC is the engine's where it has tables, and else a kernel's in C.
    config = replace(PRESETS["nano"], tables=tables, products=tables)
    program = compile_network(replace(graph, outputs=(logit, *graph.outputs)), config, check="none")
    found = run(build, tmp_path, program, frames.tobytes(), board="simulator")
    assert found == wanted.tobytes()


def spectra(count, shape):
    """Return frames of 40 bands with up to four formants that come and go."""
    noise, bands = np.random.default_rng(6), np.arange(shape[-1])
    frames = np.zeros((count, *shape))
    for frame in frames:
        for _ in range(noise.integers(0, 5)):
            centre, width = noise.uniform(0, 40), noise.uniform(1, 12)
            frame += noise.uniform(0, 220) * np.exp(-(((bands - centre) / width) ** 2))
    return np.clip(frames - 128 + noise.normal(0, 6, frames.shape), -128, 127).astype(np.int8)
