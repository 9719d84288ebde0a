"""Names of tensors may be equal, empty, or like those that the compiler generates."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import matloom
from matloom import cli, frontend
from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor, Variable
from matloom.ir.names import unique_names
from matloom.program import Program
from matloom.program.disassemble import disassemble
from matloom.tools.arrays import read_arrays, write_arrays
from matloom.tools.c_names import buffer_names
from matloom.tools.emit_c import emit_c

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file
from single_operators.reference import References

#: By number: two inputs, weights, biases, a hidden tensor, outputs of the engine and of the host.
ROLES = ("x", "y", "weights", "bias", "hidden", "sum", "softmax")
#: Names that mean something elsewhere: to the compiler, to NumPy, in C, in a file system.
ODD = (
    *("", "a", "a:4", "a | below", "a | rows for CONV_2D_0", "tensor_1", "tensor_5", "model file"),
    *("file", "allow_pickle", "*", "a/b", "../a", "open", "run", "é ü", "a\nb", "arr_0", "0"),
    "a;b",
)


def quantised(shape, scale=0.05, zero=3, **more):
    return FileTensor(shape=shape, scales=(scale,), zeros=(zero,), **more)


def network(names, *, opaque=False):
    """Return a file with a dense layer and ADD (engine), SOFTMAX (host) or ELU (neither)."""
    draw = np.random.default_rng(0)
    weights = draw.integers(-127, 128, (4, 8)).astype(np.int8)
    tensors = [
        quantised((1, 8)),
        quantised((1, 4)),
        quantised((4, 8), 0.01, 0, data=weights),
        FileTensor(shape=(4,), dtype="int32", data=np.arange(4, dtype=np.int32) * 100),
        quantised((1, 4), 0.1, -5),
        quantised((1, 4), 0.1, 7),
        quantised((1, 4), 0.1, 9) if opaque else quantised((1, 4), 1 / 256, -128),
    ]
    dense = FileOperator(
        name="FULLY_CONNECTED",
        inputs=(0, 2, 3),
        outputs=(4,),
        options=("FullyConnectedOptions", {}),
    )
    total = FileOperator(name="ADD", inputs=(4, 1), outputs=(5,), options=("AddOptions", {}))
    last = FileOperator(name="ELU", inputs=(4,), outputs=(6,))
    if not opaque:
        options = ("SoftmaxOptions", {"beta": 1.0})
        last = FileOperator(name="SOFTMAX", inputs=(4,), outputs=(6,), options=options)
    return write_file(
        FileNetwork(
            tensors=tuple(
                replace(tensor, name=name) for tensor, name in zip(tensors, names, strict=True)
            ),
            operators=(dense, total, last),
            inputs=(0, 1),
            outputs=(5, 6),
        )
    )


@pytest.fixture(scope="module")
def arrays():
    """Return inputs and TensorFlow Lite Micro's outputs (by `opaque`), in file order."""
    draw = np.random.default_rng(1)
    given = [draw.integers(-128, 128, shape).astype(np.int8) for shape in ((1, 8), (1, 4))]
    with References() as references:
        answers = {
            opaque: references.ask("tflm", network(ROLES, opaque=opaque), [given])
            for opaque in (False, True)
        }
    return given, {opaque: answer.calls[0] for opaque, answer in answers.items()}


def run(graph, given, device="model"):
    """Return the outputs in the file's order; look up inputs and outputs by name."""
    with matloom.load(graph, device=device, config="nano") as session:
        ends = session.program.inputs, session.program.outputs
        made = session.run({info.name: array for info, array in zip(ends[0], given, strict=True)})
        return [made[info.name] for info in ends[1]]


def right(names, arrays, *, opaque=False, device="model"):
    given, expected = arrays
    found = run(frontend.load(network(names, opaque=opaque)), given, device)
    for wanted, made in zip(expected[opaque], found, strict=True):
        np.testing.assert_array_equal(made, wanted, err_msg=repr(names))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("pair", list(itertools.combinations(range(len(ROLES)), 2)), ids=str)
def test_any_two_tensors_share_any_name(pair, arrays):
    for name in ODD:
        right([name if at in pair else role for at, role in enumerate(ROLES)], arrays)


def test_all_tensors_share_a_name(arrays):
    for name in ODD:
        right([name] * len(ROLES), arrays)


def test_random_names(seed, arrays):
    draw = random.Random(seed)
    for _ in range(60):
        few = draw.sample([*ODD, *ROLES], draw.randint(1, 5))
        few += [f"{name}:{at}" for name in few for at in range(2)] * draw.randint(0, 1)
        few += [f"{name} | below" for name in few] * draw.randint(0, 1)
        right([draw.choice(few) for _ in ROLES], arrays)


@pytest.mark.parametrize("pair", [(0, 6), (0, 5), (1, 6), (4, 6), (5, 6), (0, 4), (0, 1)], ids=str)
def test_names_on_an_interpreter(pair, arrays):
    right([f"a{'' if at in pair else at}" for at in range(len(ROLES))], arrays, opaque=True)


def test_names_on_the_chip(arrays):
    right(["a"] * len(ROLES), arrays, device="rtl")


def test_an_input_and_an_output_keep_the_name_that_they_share(arrays):
    given, expected = arrays
    graph = frontend.load(network(["a", "b", "c", "c", "a", "a", "b"]))
    with matloom.load(graph, device="model", config="nano", check="full") as session:
        made = session.run({"a": given[0], "b": given[1]})
    assert list(made) == ["a", "b"]
    np.testing.assert_array_equal(made["a"], expected[False][0])
    np.testing.assert_array_equal(made["b"], expected[False][1])


def test_two_outputs_that_share_a_name_get_their_numbers():
    names = ["in:0", "in", "w", "in", "h", "out", "out"]
    program = matloom.compile(frontend.load(network(names)), "nano")
    assert [info.name for info in program.inputs] == ["in:0", "in"]
    assert [info.name for info in program.outputs] == ["out:5", "out:6"]


@pytest.mark.parametrize("names", [["a"] * 7, ["a", "a:0", "", "", "a:5", "a", "a:5"], ODD[:7]])
def test_programs_keep_names(names, arrays):
    """Written, read and listed; identifiers in C are unique, too."""
    program = matloom.compile(frontend.load(network(names)), "nano")
    again = Program.from_bytes(program.to_bytes())
    assert again == program
    assert disassemble(again) == disassemble(program)
    given, expected = arrays
    for wanted, made in zip(expected[False], run(again, given), strict=True):
        np.testing.assert_array_equal(made, wanted)


def test_the_words_of_c_differ():
    names = ["x_1_2", "x_1", "x-1", "open", "run", "open", "x 1"]
    program = matloom.compile(frontend.load(network(names)), "nano")
    words = buffer_names(program, "net")
    assert set(words) == {info.key for info in program.tensors}
    assert len(set(words.values())) == len(words)
    source, header = emit_c(program, "net")
    for word in words.values():
        assert source.count(f"int8_t {word}[") == 1
    for info in (*program.inputs, *program.outputs):
        assert header.count(f"extern int8_t {words[info.key]}[") == 1


@pytest.mark.parametrize("names", [["file", "b", "w", "c", "h", "file", "allow_pickle"]])
def test_archives_of_arrays_take_any_name(names, arrays, tmp_path):
    given, expected = arrays
    source, target, model = (tmp_path / name for name in ("in.npz", "out.npz", "net.tflite"))
    model.write_bytes(network(names))
    with source.open("wb") as stream:
        write_arrays(stream, dict(zip(names[:2], given, strict=True)))
    command = ["run", model, "--input", source, "--output", target, "--device", "model"]
    done = CliRunner().invoke(cli.cli, [*map(str, command), "--config", "nano"])
    assert done.exit_code == 0, done.output
    found = read_arrays("--input", target)
    for name, wanted in zip(names[5:], expected[False], strict=True):
        np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.fast_cases(48)
@pytest.mark.parametrize("names", list(itertools.product(("v", "x", "y"), repeat=4)))
def test_variables_share_names(names):
    """A running sum, named like other tensors."""
    scale = Quantisation(scale=(0.5,), zero_point=(0,))
    kinds = {"shape": (1, 4), "dtype": "int8", "quantisation": scale}
    total = Arithmetic()
    before, given, kept, made = (Tensor(name=name, **kinds) for name in names)
    graph = Graph(
        name="sums",
        inputs=(1,),
        outputs=(3,),
        tensors={0: before, 1: given, 2: kept, 3: made},
        nodes=(
            Node(op=Op.ADD, inputs=(0, 1), outputs=(2,), attributes=total, index=0),
            Node(op=Op.ADD, inputs=(2, 1), outputs=(3,), attributes=total, index=1),
        ),
        variables=(Variable(name="v", before=0, after=2, initial=np.zeros((1, 4), np.int8)),),
    )
    with matloom.load(graph, device="model", config="nano") as session:
        array = np.array([[1, -2, 3, 4]], np.int8)
        for call in range(1, 4):
            made = session.run({names[1]: array})[names[3]]
            np.testing.assert_array_equal(made, array * (call + 1))
            np.testing.assert_array_equal(session.state["v"], array * call)


def test_unique_names_differ(seed):
    draw = random.Random(seed)
    for _ in range(200):
        pool = ["", "a", "a:1", "a:1:1", "a:2", "a | b", "a_b", "a_b:3"]
        tensors = {at: Tensor(name=draw.choice(pool), shape=(1,), dtype="int8") for at in range(8)}
        ends = [draw.sample(range(8), 3), draw.sample(range(8), 3)]
        graph = Graph(name="", inputs=ends[0], outputs=ends[1], tensors=tensors, nodes=())
        names = unique_names(graph)
        assert len(set(names.values())) == len(tensors)
        alone = [tensor.name for tensor in tensors.values()]
        for number, tensor in tensors.items():
            if (
                alone.count(tensor.name) == 1
                and "a_b" not in tensor.name
                and "|" not in tensor.name
            ):
                assert names[number] == tensor.name


def test_compiled_names_are_checked(arrays):
    """The default check uses the same names as the device."""
    graph = frontend.load(network(["a"] * len(ROLES)))
    program = compile_network(graph, PRESETS["nano"], check="full")
    assert program.verdict is not None
    assert program.verdict.share == 1.0
