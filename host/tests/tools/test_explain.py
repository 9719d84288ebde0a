"""Explanations of each operator, on the engine and on the host."""

from dataclasses import replace

import numpy as np
import pytest

from matloom import frontend
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.data.growth import Growth
from matloom.data.streaming import streaming_network
from matloom.ir.attributes import Arithmetic, Softmax
from matloom.ir.graph import Op
from matloom.terminal.tables import as_text
from matloom.tools.explain import explain
from matloom.verification.random_operators import RandomOperators
from support.mobilenet import mobilenet


def columns(table):
    return {column.header: list(column.cells) for column in table.columns}


def test_engine_and_host():
    table, *lines = explain(compile_network(frontend.load(NETWORK), "small"))
    cells = columns(table)
    last = dict(zip(cells, [column[-1] for column in cells.values()], strict=True))
    assert last["operator"] == "SOFTMAX"
    assert (last["where"], last["MACs"], last["bytes"]) == ("host", "", "20")
    assert lines[0] == (
        f"host: it needs softmax = 1, and the configuration has softmax = 0 ({last['output']})"
    )
    first = dict(zip(cells, [column[0] for column in cells.values()], strict=True))
    assert first["where"] == "engine i8xi8"
    # Image, weights, bias, features.
    assert first["bytes"] == f"{64 + 144 + 64 + 1024:,}"
    assert any("100.0% of them on the engine" in line for line in lines)
    # Image, weights, parameters and features come in, and go out again to the host.
    (moved,) = (line for line in lines if line.startswith("bytes moved"))
    assert "INPUT 64," in moved
    assert "OUTPUT 10," in moved
    assert lines[-2] == "checked when compiled: nothing"
    assert lines[-1].startswith("what would help most: ")
    assert lines[-1].endswith("beyond full use of the array")


def test_host_alone():
    graph = RandomOperators(0, "float32").make(Op.FULLY_CONNECTED)
    program = compile_network(graph, "small")
    _table, *lines = explain(program)
    count = graph.tensors[1].size * graph.tensors[0].size // graph.tensors[1].shape[1]
    assert any("0.0% of them on the engine" in line for line in lines)
    assert lines[-1] == (
        f"what would help most: output_0 (FULLY_CONNECTED), {count:,} MACs on the host: "
        "the engine has no FULLY_CONNECTED of float32; a precision of bf16 or fp16 makes it run "
        "there"
    )
    constants = sum(
        tensor.data.nbytes for tensor in graph.tensors.values() if tensor.data is not None
    )
    assert any(line.endswith(f"the host's constants: {constants:,}") for line in lines)
    assert np.sum([constant.dtype == "float32" for constant in program.constants]) >= 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("", None),
        ("+windows=0", "windows = 0: a step for each tap, not one for each window ({taps})"),
        (
            "+paired_windows=0",
            "paired_windows = 0: windows at stride 2 take one position a cycle, not four",
        ),
    ],
)
def test_features_missing_in_the_configuration(change, sentence):
    """A MobileNet block at `reference` with a depthwise layer of stride 2."""
    graph = mobilenet(7, 16)
    depthwise = [node for node in graph.nodes if node.op is Op.DEPTHWISE_CONV_2D]
    assert {node.attributes.stride for node in depthwise} >= {(2, 2)}
    names = ", ".join(graph.tensors[node.outputs[0]].name for node in depthwise)
    _table, *lines = explain(compile_network(graph, f"reference{change}"))
    said = [line for line in lines if "windows = 0" in line]
    assert said == ([] if sentence is None else [sentence.format(taps=names)])


@pytest.mark.parametrize("config", ["small", "small+element_stride=0"])
def test_first_layers_that_take_one_channel(config):
    _table, *lines = explain(compile_network(frontend.load(NETWORK), config))
    said = "element_stride = 0: the first layer takes one channel, not rows as channels"
    assert (said in lines) == ("element_stride" in config)


def test_names_are_no_markup():
    """Names from files may look like markup of the terminal library; they stay text."""
    program = compile_network(RandomOperators([1, 2]).make(Op.RELU), "nano")
    names = ("[/red]", "[bold]", ":smile:")
    layers = tuple(replace(program.layers[0], name=name) for name in names)
    text = as_text(explain(replace(program, name="[/x]", layers=layers)))
    for name in (*names, "[/x]"):
        assert name in text


def remembering(after_of, outputs_of):
    """Return explanations of a network with a variable, and of the sum that it keeps."""
    growth = Growth((1,))
    given = growth.input((1, 4, 4, 3), "int8")
    before = growth.variable((1, 4, 4, 3), "int8", growth.tensors[given].quantisation)
    nothing = Arithmetic()
    (total,) = growth.operator(Op.ADD, [before, given], nothing)
    (chances,) = growth.operator(Op.SOFTMAX, [total], Softmax(beta=1.0))
    numbers = {"given": given, "total": total, "chances": chances}
    growth.assign(before, numbers[after_of])
    graph = growth.graph("a test", [given], [numbers[name] for name in outputs_of])
    _table, *lines = explain(compile_network(graph, "nano"))
    at = lines.index("state: 48 bytes in 1 variable")
    return lines[at + 1]


@pytest.mark.parametrize(
    ("after", "outputs", "place"),
    [
        ("total", ["total"], "an input or output of the network is the same tensor"),
        ("given", ["total"], "an input or output of the network is the same tensor"),
        ("total", ["chances"], "SOFTMAX on the host uses it"),
        ("chances", ["total"], "SOFTMAX on the host uses it"),
    ],
)
def test_where_variables_are(after, outputs, place):
    assert (
        remembering(after, outputs) == f"  v0: int8[1x4x4x3], 48 bytes, kept by the host: {place}"
    )


def test_variables_in_place():
    _table, *lines = explain(compile_network(streaming_network(1, layers=1), "nano"))
    (line,) = (line for line in lines if line.startswith("  v0"))
    assert line == "  v0: int8[1x1x1x8], 8 bytes, ARENA 0, in place"


def test_fused_operators_have_their_cycles_with_the_operator_that_reads_them():
    """A convolution before an ADD; utilisation and advice count its products there."""
    program = compile_network(frontend.load(NETWORK), "reference", check="none")
    assert program.fused == {"outer": "joined"}
    layers = {layer.name: layer for layer in program.layers}
    outer, joined = layers["outer"], layers["joined"]
    assert (program.macs_of(outer), program.macs_of(joined)) == (0, outer.macs)
    assert program.ideal_cycles(joined) == outer.macs / 256
    # All operators together keep their products.
    assert sum(map(program.macs_of, program.layers)) == program.macs
    table, *lines = explain(program)
    cells = columns(table)
    row = dict(zip(cells, [column[2] for column in cells.values()], strict=True))
    assert (row["output"], row["cycles"], row["MACs per\ncycle"]) == ("outer", "fused", "")
    assert "fused: the cycles of outer are among those of joined" in lines
    assert not any("most: joined" in line for line in lines)


def test_no_operator_is_fused_without_sums_of_results():
    program = compile_network(frontend.load(NETWORK), "reference+result_sums=0", check="none")
    assert program.fused == {}
    assert not any(line.startswith("fused") for line in explain(program) if isinstance(line, str))


def test_operators_that_an_interpreter_runs_together():
    """Their reasons are one line, and their bytes are stated once."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    made = onnx.helper
    nodes = [
        made.make_node(op, [source], [result])
        for op, source, result in (("Relu", "x", "a"), ("Softmax", "a", "b"), ("Relu", "b", "y"))
    ]
    ends = [made.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8]) for name in "xy"]
    opset = made.make_opsetid("", 17)
    model = made.make_model(
        made.make_graph(nodes, "net", ends[:1], ends[1:]), opset_imports=[opset], ir_version=8
    )
    program = compile_network(frontend.load(model.SerializeToString()), "nano")
    table, *lines = explain(program)
    cells = columns(table)
    assert cells["operator"] == ["Relu", "Softmax", "Relu"]
    assert [bool(each) for each in cells["bytes"]] == [True, False, False]
    assert lines[0] == (
        "host: Relu computes in floating point; matloom quantise makes it an integer operator: "
        "on ONNX Runtime (y); the same holds for Softmax"
    )
    assert not lines[1].startswith("host: ")
    assert "no cycles: the engine runs no operator" in lines
    assert not any("utilisation" in line for line in lines)
