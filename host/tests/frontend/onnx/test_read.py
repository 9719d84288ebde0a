"""ONNX files: what is read, which runtime is used, and the message for each defect.

Expected numbers are ONNX Runtime's.
"""

import random
import time

import ml_dtypes
import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.errors import UserError
from matloom.frontend.errors import ModelError
from matloom.frontend.onnx.arithmetic import onnx_macs
from matloom.ir.attributes import Reference
from matloom.kernels.interpreter import interpret
from matloom.kernels.probe import keep_processes
from matloom.kernels.reference import InterpreterError
from support.onnx_cases import quantised_convolution

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
FLOAT, INT64, STRING = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.STRING
helper = onnx.helper


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, constants=(), opset=17):
    """Return the file of a graph; constants are arrays by name."""
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def convolution(batch="batch"):
    """Return a convolution and a RELU whose batch axis has a name."""
    weights = np.random.default_rng(0).standard_normal((3, 2, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    inputs, outputs = [value("x", [batch, 2, 5, 4])], [value("y", [batch, 3, 5, 4])]
    return model(nodes, inputs, outputs, {"w": weights})


def runtime(content, given):
    """Return ONNX Runtime's outputs for a file."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, given)


def numbers(shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_a_network_of_floats_is_onnx_runtimes():
    content = convolution().SerializeToString()
    x = numbers((2, 2, 5, 4))
    with matloom.load(content, device="model", config="nano", dims={"batch": 2}) as session:
        found = session.run(x)
    np.testing.assert_array_equal(found, runtime(content, {"x": x})[0])
    layers = session.program.layers
    assert [(layer.operator, layer.where) for layer in layers] == [
        ("Conv", "host"),
        ("Relu", "host"),
    ]
    assert "on ONNX Runtime" in layers[0].reason
    assert layers[0].macs == 2 * 3 * 5 * 4 * 2 * 3 * 3


@pytest.mark.parametrize(
    ("names", "places", "length"),
    [(["Conv"], (), "longer"), (["Conv"], (0, 1), "longer"), (["Conv", "Relu"], (0,), "shorter")],
)
def test_macs_of_names_at_other_places_are_refused(names, places, length):
    content = convolution(2).SerializeToString()
    assert onnx_macs(content, ["Conv", "Relu"], ()) == onnx_macs(content, ["Conv", "Relu"], (0, 1))
    with pytest.raises(ValueError, match=f"argument 2 is {length}"):
        onnx_macs(content, names, places)


@pytest.mark.parametrize(
    ("shapes", "dims", "message", "hint"),
    [
        (
            None,
            None,
            "input 'x' with the dimension 'batch', whose size is not known",
            "--dim batch=1",
        ),
        (None, {"batc": 1}, "has no dimension 'batc', but 'batch'", "did you mean 'batch'"),
        ({"z": (1,)}, None, "has no input 'z', but 'x'", ""),
        ({"x": (1, 2, 5)}, None, r"input 'x' of shape \(batch, 2, 5, 4\), not \(1, 2, 5\)", ""),
        ({"x": (1, 2, 6, 4)}, None, r"of shape \(batch, 2, 5, 4\), not \(1, 2, 6, 4\)", ""),
        ({"x": (1, 2, 5, 4)}, {"batch": 2}, r"not \(1, 2, 5, 4\)", ""),
        (None, {"batch": 0}, "size of 1 or more for 'batch', not 0", ""),
    ],
)
def test_sizes_that_are_missing_or_do_not_fit(shapes, dims, message, hint):
    with pytest.raises(ModelError, match=message) as caught:
        frontend.load(convolution().SerializeToString(), shapes, dims)
    assert hint in caught.value.hint


def test_shapes_set_unnamed_axes():
    content = convolution(None).SerializeToString()
    with pytest.raises(ModelError, match="a dimension without name or size") as caught:
        frontend.load(content)
    assert "--shape x=N,2,5,4" in caught.value.hint
    assert frontend.load(content, {"x": (3, 2, 5, 4)}).tensors[0].shape == (3, 2, 5, 4)


def test_weights_in_another_file(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(
        convolution(1), path, save_as_external_data=True, location="net.data", size_threshold=0
    )
    x = numbers((1, 2, 5, 4))
    graph = frontend.load(path)
    found = interpret(graph, {graph.inputs[0]: x})[graph.outputs[0]]
    np.testing.assert_array_equal(found, runtime(str(path), {"x": x})[0])
    with pytest.raises(ModelError, match="keeps 'w' in another file, which bytes cannot refer to"):
        frontend.load(path.read_bytes())
    (tmp_path / "net.data").unlink()
    with pytest.raises(ModelError, match="net keeps weights in other files, which cannot be read"):
        frontend.load(path)


def test_a_name_that_is_not_utf_8():
    content = model([helper.make_node("Relu", ["x"], ["first"])], [value("x", [1])], [])
    damage = content.SerializeToString().replace(b"first", b"f\xffrst")
    with pytest.raises(ModelError, match="a name in it is not UTF-8"):
        frontend.load(damage)


def test_files_that_are_not_arrays():
    text = model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [value("x", [1], STRING)],
        [value("y", [1], STRING)],
    )
    with pytest.raises(ModelError, match="input 'x' of type string, which NumPy does not have"):
        frontend.load(text.SerializeToString())
    several = helper.make_tensor_sequence_value_info("x", FLOAT, [1])
    sequence = model(
        [helper.make_node("SequenceLength", ["x"], ["y"])], [several], [value("y", [], INT64)]
    )
    with pytest.raises(ModelError, match="input 'x', which must be a tensor, not sequence"):
        frontend.load(sequence.SerializeToString())


@pytest.mark.parametrize(
    ("narrow", "wide", "rounded"),
    [
        ("BFLOAT16", np.float32, lambda x: x.astype(ml_dtypes.bfloat16)),
        ("FLOAT8E4M3FN", np.float32, lambda x: x.astype(ml_dtypes.float8_e4m3fn)),
        ("INT4", np.int8, lambda x: x),
    ],
)
def test_types_that_numpy_lacks_are_widened(narrow, wide, rounded):
    """Also for inputs that only a branch reads."""
    kind = getattr(onnx.TensorProto, narrow)
    constant = onnx.numpy_helper.from_array(np.array(True), "c")
    branch = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["z"], to=FLOAT)], "b", [], [value("z", [3])]
    )
    nodes = [
        helper.make_node("If", ["c"], ["f"], then_branch=branch, else_branch=branch),
        helper.make_node("Identity", ["x"], ["y"]),
    ]
    ends = [value("x", [3], kind)], [value("f", [3]), value("y", [3], kind)]
    file = model(nodes, *ends, opset=21)
    file.graph.initializer.append(constant)
    graph = frontend.load(file.SerializeToString())
    assert [graph.tensors[at].dtype for at in graph.inputs] == [np.dtype(wide).name]
    x = np.array([1.3, -4, 5], np.float32).astype(wide)
    floats, same = interpret(graph, {graph.inputs[0]: x}).values()
    np.testing.assert_array_equal(floats, rounded(x).astype(np.float32))
    np.testing.assert_array_equal(same, rounded(x).astype(wide), strict=True)


def test_a_shape_known_at_run_time():
    nodes = [helper.make_node("NonZero", ["x"], ["places"])]
    content = model(nodes, [value("x", [2, 3])], [value("places", [2, None], INT64)])
    graph = frontend.load(content.SerializeToString())
    x = np.array([[0, 1, 0], [2, 0, 3]], np.float32)
    (found,) = (interpret(graph, {0: x})[number] for number in graph.outputs)
    np.testing.assert_array_equal(found, np.nonzero(x))


def test_an_input_put_out_again_and_an_output_twice():
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    content = model(
        nodes, [value("x", [3])], [value("y", [3]), value("x", [3])]
    ).SerializeToString()
    x = numbers(3)
    with matloom.load(content, device="model", config="nano") as session:
        found = session.run({"x": x})
    for name, array in zip(("y", "x"), runtime(content, {"x": x}), strict=True):
        np.testing.assert_array_equal(found[name], array)


def test_a_network_needs_no_inputs():
    nodes = [helper.make_node("Exp", ["c"], ["y"])]
    content = model(nodes, [], [value("y", [3])], {"c": numbers(3)}).SerializeToString()
    with matloom.load(content, device="model", config="nano") as session:
        found = session.run({})
    (wanted,) = runtime(content, {})
    np.testing.assert_array_equal(found["y"], wanted)


def test_constants_among_the_inputs_are_no_inputs():
    nodes = [helper.make_node("Add", ["x", "b"], ["y"])]
    inputs = [value("x", [2]), value("b", [2])]
    content = model(nodes, inputs, [value("y", [2])], {"b": np.ones(2, np.float32)})
    graph = frontend.load(content.SerializeToString())
    assert [graph.tensors[number].name for number in graph.inputs] == ["x"]


def test_branches_see_what_is_outside():
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["x"], ["r"])], name, [], [value("r", [2])]
        )
        for name, op in (("then", "Neg"), ("else", "Abs"))
    }
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    content = model(
        nodes, [value("x", [2])], [value("y", [2])], {"zero": np.float32(0).reshape(())}
    )
    graph = frontend.load(content.SerializeToString())
    for x in ([1.0, 2.0], [-1.0, -2.0]):
        array = np.array(x, np.float32)
        found = interpret(graph, {graph.inputs[0]: array})[graph.outputs[0]]
        np.testing.assert_array_equal(found, runtime(content.SerializeToString(), {"x": array})[0])


def test_refusals_of_onnx_runtime_are_one_message():
    content = model(
        [helper.make_node("Unheard", ["x"], ["y"])], [value("x", [1])], [value("y", [1])]
    )
    with pytest.raises(
        InterpreterError, match="Unheard must run on a reference interpreter"
    ) as caught:
        matloom.compile(content.SerializeToString(), "nano")
    assert "\n" not in str(caught.value)
    assert "[ONNXRuntimeError]" not in str(caught.value)


def damaged(content, draw):
    """Return a file with a few changed bytes, or cut short."""
    data = bytearray(content)
    if draw.random() < 0.2:
        return bytes(data[: draw.randrange(len(data))])
    for _ in range(draw.choice((1, 1, 2, 8))):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def read(content):
    """Return the message if a file is refused, or None."""
    try:
        frontend.load(content)
    except UserError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", ["strides", "dilations"])
@pytest.mark.parametrize("operator", ["Conv", "MaxPool"])
def test_strides_and_dilations_of_0(operator, name):
    window = {"kernel_shape": [3, 3], name: [0, 1]}
    inputs = ["x", "w"] if operator == "Conv" else ["x"]
    node = helper.make_node(operator, inputs, ["y"], **window)
    constants = {"w": np.ones((2, 2, 3, 3), np.float32)} if operator == "Conv" else {}
    content = model([node], [value("x", [1, 2, 6, 6])], [value("y", None)], constants)
    message = read(content.SerializeToString())
    assert message.startswith("model has the output 'y', whose shape is unknown")
    assert f"{name} must only contain positive values" in message


@pytest.mark.parametrize(
    "count", [40, pytest.param(2_000, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_damaged_quantised_files_get_one_message(count):
    """ONNX Runtime reads such files in a process of its own."""
    content, draw = quantised_convolution(), random.Random(1)
    assert len(frontend.load(content).remarks) == 1
    with keep_processes():
        messages = [read(damaged(content, draw)) for _ in range(count)]
    refused = [message for message in messages if message is not None]
    assert len(refused) > count // 20
    assert all("\n" not in message and len(message) < 400 for message in refused)


@pytest.mark.parametrize(
    "count", [300, pytest.param(20_000, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_damaged_files_get_one_message(count):
    content = convolution(1).SerializeToString()
    draw = random.Random(0)
    messages = [read(damaged(content, draw)) for _ in range(count)]
    refused = [message for message in messages if message is not None]
    assert len(refused) > count // 10
    assert all("\n" not in message and len(message) < 400 for message in refused)


def test_an_operator_that_only_onnx_runtime_has_is_a_reference():
    graph = frontend.load(convolution(1).SerializeToString())
    (node,) = graph.nodes
    attributes = node.attributes_as(Reference)
    assert attributes.operators == ("Conv", "Relu")
    assert attributes.interpreters == ("onnxruntime", "onnx")


def test_a_refusal_is_onnx_runtimes_reason_alone():
    """Without the error codes, source locations and C++ signatures of its messages."""
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2, layout=1)
    weights = {name: np.zeros((1, 8, 2), np.float32) for name in ("w", "r")}
    file = model([node], [value("x", [1, 3, 2])], [value("y", None)], weights)
    (layer,) = matloom.compile(file.SerializeToString(), "nano").layers
    assert "(onnxruntime refuses: Batchwise recurrent operations" in layer.reason


def test_the_reference_implementation_is_the_fallback():
    """A recurrent layer with the batch first; ONNX Runtime supports steps first only."""
    draw = np.random.default_rng(0)
    shapes = {"w": (1, 8, 2), "r": (1, 8, 2)}
    weights = {name: draw.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    x = draw.standard_normal((3, 5, 2), np.float32)

    def layer(layout, shape):
        node = helper.make_node("LSTM", ["x", *weights], ["", "y"], hidden_size=2, layout=layout)
        ends = [value("x", shape)], [value("y", [3, 1, 2] if layout else [1, 3, 2])]
        return model([node], *ends, weights).SerializeToString()

    graph = frontend.load(layer(1, [3, 5, 2]))
    found = interpret(graph, {graph.inputs[0]: x})[graph.outputs[0]]
    (wanted,) = runtime(layer(0, [5, 3, 2]), {"x": x.transpose(1, 0, 2)})
    np.testing.assert_allclose(found, wanted.transpose(1, 0, 2), atol=1e-6)


def loop(iterations):
    """Return a Loop that adds one to `x` as many times as a constant says."""
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "one"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [value("i", [], INT64), value("c", [], onnx.TensorProto.BOOL), value("v", [2])],
        [value("d", [], onnx.TensorProto.BOOL), value("w", [2])],
        [onnx.numpy_helper.from_array(np.ones(2, np.float32), "one")],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)]
    constants = {"n": np.array(iterations)}
    return model(nodes, [value("x", [2])], [value("y", [2])], constants).SerializeToString()


@pytest.mark.slow
def test_endless_networks_time_out_once():
    """The slower reference implementation is not tried as well."""
    sentence = r"but onnxruntime refuses: it does not end in time\nhint"
    with pytest.raises(InterpreterError, match=sentence):
        matloom.compile(loop(2**40), "nano")


@pytest.mark.slow
def test_constants_that_operators_make_may_be_large():
    """A file of a few bytes computes half a gigabyte of weights."""
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    sizes = 11_000, 12_000
    constants = {"s": np.array(sizes)}
    ends = [value("x", [1, sizes[0]])], [value("y", [1, sizes[1]])]
    program = matloom.compile(model(nodes, *ends, constants).SerializeToString(), "nano")
    assert program.macs == sizes[0] * sizes[1]


def test_a_vector_of_any_length_is_refused_at_once():
    """The shape inference of the package onnx would list its elements."""
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=INT64)]
    content = model(nodes, [value("x", [2**31 - 1])], [value("y", [2**31 - 1], INT64)])
    begin = time.process_time()
    with pytest.raises(UserError, match="at most 2147483647 bytes"):
        matloom.compile(content.SerializeToString(), "nano")
    assert time.process_time() - begin < 2
