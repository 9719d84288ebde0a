"""Model files: what is read, and the message for each defect."""

from dataclasses import replace
from importlib import resources

import flatbuffers
import numpy as np
import pytest

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.frontend.errors import ModelError
from matloom.ir.attributes import INTERPRETERS, Activation, Padding
from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.runtime import load
from matloom.tools.compare import compare

DIGITS = resources.files("matloom.data").joinpath("digits.tflite").read_bytes()


@pytest.fixture
def schema():
    """Return the official schema's objects, to modify a model with."""
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed"
    )
    return runtime.schema_fb


@pytest.fixture
def model(schema):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(DIGITS, 0))


def pack(model):
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def refused(model, sentence):
    with pytest.raises(ModelError) as error:
        frontend.load(pack(model))
    assert str(error.value) == f"model: {sentence}"


def opaque(model, reason, name="CONV_2D", position=0, interpreters=INTERPRETERS):
    """Check that exactly one operator is left to a reference interpreter, and the reason."""
    graph = frontend.load(pack(model))
    (node,) = (node for node in graph.nodes if node.op is Op.REFERENCE)
    assert node.attributes.operators == (name,)
    assert node.attributes.reasons == (f"{name} {reason}",)
    assert node.attributes.interpreters == interpreters
    assert node.attributes.positions == (position,)
    assert node.index == position
    assert graph.tensors[node.inputs[-1]].data.tobytes() == pack(model)


def contradicts(model, reason):
    """Check that the first operator and all later ones are left to the interpreter."""
    graph = frontend.load(pack(model))
    (node,) = graph.nodes
    assert node.op is Op.REFERENCE
    assert node.attributes.reasons[0] == f"CONV_2D {reason}"
    follows = "CONV_2D reads tensor 3, whose shape is known only at run time"
    assert node.attributes.reasons[1] == follows
    assert len(node.attributes.operators) == 9
    assert node.attributes.interpreters == INTERPRETERS[1:]


def test_digits():
    graph = frontend.load(DIGITS)
    assert [graph.tensors[number].name for number in graph.inputs] == ["image"]
    assert [graph.tensors[number].name for number in graph.outputs] == ["probabilities"]
    assert [node.op for node in graph.nodes] == [
        *(Op.CONV_2D, Op.CONV_2D, Op.CONV_2D, Op.ADD, Op.CONV_2D),
        *(Op.AVERAGE_POOL_2D, Op.RESHAPE, Op.FULLY_CONNECTED, Op.SOFTMAX),
    ]
    halving = graph.nodes[4]
    assert halving.attributes.stride == (2, 2)
    assert halving.attributes.padding == Padding(bottom=1, right=1)
    assert halving.attributes.activation is Activation.RELU
    weights = graph.tensors[graph.nodes[7].inputs[1]]
    assert weights.quantisation.axis == 0
    assert len(weights.quantisation.scale) == 10
    assert weights.data.shape == (10, 32)
    assert graph.producers[graph.outputs[0]] == 8
    assert graph.consumers[graph.nodes[0].output] == (1, 3)


def test_path_gives_the_name(tmp_path):
    path = tmp_path / "seven.tflite"
    path.write_bytes(DIGITS)
    assert frontend.load(path).name == frontend.load(str(path)).name == "seven"


def test_missing_file(tmp_path):
    with pytest.raises(ModelError, match=r"cannot read .*none.tflite: no such file"):
        frontend.load(tmp_path / "none.tflite")


@pytest.mark.parametrize("content", [b"", b"TFL3", b"x" * 100, b"\x89PNG\r\n\x1a\n" * 4])
def test_other_file(content):
    with pytest.raises(ModelError, match=r"these bytes are .*, not a TensorFlow Lite or ONNX file"):
        frontend.load(content)


def test_old_field_alone_holds_the_operator(model):
    model.operatorCodes[0].builtinCode = 0
    assert frontend.load(pack(model)).nodes[0].op is Op.CONV_2D


def test_new_field_alone_holds_the_operator(model):
    model.operatorCodes[1].builtinCode = 206
    model.operatorCodes[1].deprecatedBuiltinCode = 0
    opaque(model, "has no kernel here", "STABLEHLO_COMPOSITE", 3)


def test_new_field_alone_holds_an_operator_of_the_old_ones(model):
    convolution = model.operatorCodes[model.subgraphs[0].operators[0].opcodeIndex]
    assert convolution.builtinCode == 3
    convolution.deprecatedBuiltinCode = 0
    assert frontend.load(pack(model)).nodes[0].op is Op.CONV_2D


def test_bias_scales_are_ignored(model):
    for number in (2, 18):
        model.subgraphs[0].tensors[number].quantization.quantizedDimension = 3
    assert frontend.load(pack(model)).tensors[2].quantisation is None


def test_absent_bias_is_left_out(model):
    model.subgraphs[0].operators[0].inputs = np.array([0, 1, -1], np.int32)
    assert frontend.load(pack(model)).nodes[0].inputs == (0, 1)


def test_absent_weights(model):
    model.subgraphs[0].operators[0].inputs = np.array([0, -1, 2], np.int32)
    contradicts(model, "must have its inputs and outputs, not [0, -1, 2] and [3]")


def test_more_inputs_than_the_format_has(model):
    model.subgraphs[0].operators[0].inputs = np.array([0, 1, 2, 2], np.int32)
    contradicts(model, "must have 3 inputs at most, not 4")


@pytest.mark.parametrize(("number", "name"), [(47, "EXP"), (123, "SELECT_V2"), (76, "RSQRT")])
def test_unknown_operator(model, number, name):
    model.operatorCodes[1].builtinCode = model.operatorCodes[1].deprecatedBuiltinCode = number
    opaque(model, "has no kernel here", name, 3)


def test_custom_operator(model):
    model.operatorCodes[1].builtinCode = model.operatorCodes[1].deprecatedBuiltinCode = 32
    model.operatorCodes[1].customCode = "FOO"
    opaque(model, "has no kernel here", "FOO", 3)


@pytest.mark.parametrize(
    ("code", "accelerator"),
    [
        ("ethos-u", "Ethos-U"),
        ("edgetpu-custom-op", "Edge TPU"),
        ("NeutronGraph", "Neutron"),
        ("DISPATCH_OP", "LiteRT"),
    ],
)
def test_a_file_compiled_for_another_accelerator(model, code, accelerator):
    model.operatorCodes[1].builtinCode = model.operatorCodes[1].deprecatedBuiltinCode = 32
    model.operatorCodes[1].customCode = code
    with pytest.raises(ModelError, match=f"compiled for .*{accelerator}") as refusal:
        frontend.load(pack(model))
    assert refusal.value.hint == "give the .tflite file from which it was compiled"


def test_float_operator(schema, model):
    model.subgraphs[0].tensors[0].type = schema.TensorType.FLOAT32
    opaque(model, "of float32 int8 int32 -> int8 runs neither on the engine nor on the host")


NO_ARRAY = ", which no array here can hold"


@pytest.mark.parametrize("kind", ["STRING", "BFLOAT16"])
def test_unknown_type(schema, model, kind):
    model.subgraphs[0].tensors[0].type = {"STRING": 5, "BFLOAT16": 18}[kind]
    refused(model, f"uses tensor 0 (image), which has the type {kind}{NO_ARRAY}")


def four_bits(schema, model, operators):
    """Give operators 4-bit weights, packed as the format defines; return them by tensor."""
    weights = {}
    for position in operators:
        number = int(model.subgraphs[0].operators[position].inputs[1])
        tensor = model.subgraphs[0].tensors[number]
        values = np.array(model.buffers[tensor.buffer].data, np.uint8).view(np.int8) >> 4
        pairs = np.pad(values, (0, values.size % 2)).reshape(-1, 2) & 15
        tensor.type = schema.TensorType.INT4
        model.buffers[tensor.buffer].data = pairs[:, 0] | pairs[:, 1] << 4
        weights[number] = values.reshape(tensor.shape)
    return weights


def test_weights_of_four_bits(schema, model):
    """Convolutions and the dense layer, every tensor compared with TensorFlow Lite Micro's."""
    weights = four_bits(schema, model, (0, 1, 2, 4, 7))
    # The reference takes a dense layer of four bits with a single scale.
    scales = model.subgraphs[0].tensors[max(weights)].quantization
    scales.scale, scales.zeroPoint = scales.scale[:1], scales.zeroPoint[:1]
    content = pack(model)
    graph = frontend.load(content)
    for number, values in weights.items():
        assert graph.tensors[number].dtype == "int8"
        assert np.array_equal(graph.tensors[number].data, values)
    assert compare(content).equal
    image = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1), np.int8)
    expected = interpret(graph, {graph.inputs[0]: image})[graph.outputs[0]]
    modes = []
    for config in (PRESETS["small"], replace(PRESETS["small"], mac_modes=("i8xi8", "i8xi4"))):
        program = compile_network(graph, config)
        assert np.array_equal(load(program, device="model").run(image), expected)
        modes.append({layer.mode for layer in program.layers if layer.mode})
    assert modes == [{"i8xi8"}, {"i8xi4"}]


def test_computed_numbers_of_four_bits(schema, model):
    model.subgraphs[0].tensors[0].type = schema.TensorType.INT4
    refused(model, "uses tensor 0 (image), which has the type INT4" + NO_ARRAY)


def whole(model, reason):
    graph = frontend.load(pack(model))
    (node,) = graph.nodes
    assert node.op is Op.REFERENCE
    assert set(node.attributes.reasons) == {reason}
    assert node.attributes.positions == ()
    assert len(node.attributes.operators) == 9
    assert node.inputs[:-1] == graph.inputs
    assert node.outputs == graph.outputs


def test_two_subgraphs(model):
    model.subgraphs.append(model.subgraphs[0])
    whole(model, "the network has 2 subgraphs")


def test_operators_beyond_their_tensors(model):
    model.operatorCodes[1].builtinCode = 119
    whole(model, "WHILE ties the network's parts together")


def test_shared_state(model):
    model.subgraphs[0].tensors[3].isVariable = True
    whole(model, "operators share the state of tensor 3")


def test_runs_of_opaque_operators_are_one_node(model):
    convolution = model.operatorCodes[model.subgraphs[0].operators[0].opcodeIndex]
    convolution.builtinCode = convolution.deprecatedBuiltinCode = 47
    first, add, second, *_rest = frontend.load(pack(model)).nodes
    assert first.attributes.operators == ("EXP",) * 3
    assert (first.attributes.positions, second.attributes.positions) == ((0, 1, 2), (4,))
    assert first.inputs[:-1] == first.attributes.inputs == (0,)
    assert add.op is Op.ADD
    assert first.outputs == first.attributes.outputs == add.inputs
    assert second.inputs[0] == add.output


def test_names_that_outputs_share(model):
    outputs = [*model.subgraphs[0].outputs, 3]
    model.subgraphs[0].outputs = np.array(outputs, np.int32)
    model.subgraphs[0].tensors[3].name = model.subgraphs[0].tensors[outputs[0]].name
    graph = frontend.load(pack(model))
    names = [graph.tensors[number].name for number in graph.outputs]
    assert names == [f"probabilities:{number}" for number in outputs]


def test_cycle_within_a_stretch(model):
    code = model.operatorCodes[model.subgraphs[0].operators[0].opcodeIndex]
    code.builtinCode = code.deprecatedBuiltinCode = 47
    first, second = model.subgraphs[0].operators[:2]
    first.inputs = np.array([second.outputs[0]], np.int32)
    refused(
        model,
        f"operator 0 (EXP) must read what an earlier operator made, not tensor {second.outputs[0]}",
    )


def test_no_outputs(model):
    model.subgraphs[0].outputs = np.array([], np.int32)
    refused(model, "a model must have outputs")


def test_data_of_an_input_are_not_its_values(model, schema):
    """Both interpreters take what a call passes."""
    graph = model.subgraphs[0]
    image = graph.tensors[graph.inputs[0]]
    held = schema.BufferT()
    held.data = np.full(64, 7, np.uint8)
    image.buffer = len(model.buffers)
    model.buffers.append(held)
    found, wanted = frontend.load(pack(model)), frontend.load(DIGITS)
    passed = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1), np.int8)
    results = [
        interpret(each, {each.inputs[0]: passed})[each.outputs[0]] for each in (found, wanted)
    ]
    np.testing.assert_array_equal(*results)


def test_tensor_beyond_the_end(model):
    count = len(model.subgraphs[0].tensors)
    model.subgraphs[0].operators[3].inputs = np.array([3, 99], np.int32)
    refused(model, f"operator 3 (ADD) must use one of {count} tensors, not 99")


def test_operator_code_beyond_the_end(model):
    model.subgraphs[0].operators[3].opcodeIndex = 77
    refused(model, f"operator 3 must be one of {len(model.operatorCodes)} kinds, not 77")


def test_buffer_beyond_the_end(model):
    model.subgraphs[0].tensors[1].buffer = 999
    name = model.subgraphs[0].tensors[1].name.decode()
    refused(
        model,
        f"operator 0 (CONV_2D) uses tensor 1 ({name}), which must have one of "
        f"{len(model.buffers)} buffers, not 999",
    )


def test_buffer_without_data(model):
    model.subgraphs[0].tensors[1].buffer = 0
    refused(model, "operator 0 (CONV_2D) must read what an earlier operator made, not tensor 1")


def test_buffer_too_short(model):
    tensor = model.subgraphs[0].tensors[1]
    model.buffers[tensor.buffer].data = model.buffers[tensor.buffer].data[:-3]
    refused(
        model,
        f"operator 0 (CONV_2D) uses tensor 1 ({tensor.name.decode()}), which must have 144 bytes "
        "of data, not 141",
    )


def test_activation(model):
    model.subgraphs[0].operators[0].builtinOptions.fusedActivationFunction = 4
    opaque(model, "has an activation of TANH")


@pytest.mark.parametrize("length", [0, -1])
@pytest.mark.parametrize("name", ["stride", "dilation"])
def test_strides_and_dilations_below_1(model, name, length):
    options = model.subgraphs[0].operators[0].builtinOptions
    setattr(options, {"stride": "strideW", "dilation": "dilationWFactor"}[name], length)
    contradicts(model, f"must have a {name} of at least 1, not (1, {length})")


def test_padding(model):
    model.subgraphs[0].operators[0].builtinOptions.padding = 9
    contradicts(model, "must have a padding of SAME or VALID, not 9")


def test_weights_format(model):
    model.subgraphs[0].operators[7].builtinOptions.weightsFormat = 1
    opaque(model, "has weights of format 1", "FULLY_CONNECTED", 7)


def test_options_of_another_operator(schema, model):
    model.subgraphs[0].operators[0].builtinOptions = schema.AddOptionsT()
    model.subgraphs[0].operators[0].builtinOptionsType = schema.BuiltinOptions.AddOptions
    opaque(model, "must have Conv2DOptions, not AddOptions")


def test_no_options(model):
    model.subgraphs[0].operators[0].builtinOptions = None
    model.subgraphs[0].operators[0].builtinOptionsType = 0
    opaque(model, "must have Conv2DOptions, not none")


def test_softmax_beta(model):
    model.subgraphs[0].operators[8].builtinOptions.beta = float("nan")
    opaque(model, "must have a beta above 0 and below 2**20, not nan", "SOFTMAX", 8)


def test_weights_with_a_zero_point(model):
    zeros = model.subgraphs[0].tensors[1].quantization.zeroPoint
    model.subgraphs[0].tensors[1].quantization.zeroPoint = zeros + 5
    opaque(model, "must have weights of zero point 0, not 5")


def test_scale_count(model):
    quantisation = model.subgraphs[0].tensors[1].quantization
    quantisation.scale = quantisation.scale[:7]
    name = model.subgraphs[0].tensors[1].name.decode()
    opaque(
        model,
        f"uses tensor 1 ({name}), which must have 16 scales and zero points, not 7 and 16",
    )


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_absurd_scale(model, scale):
    model.subgraphs[0].tensors[0].quantization.scale = np.array([scale], np.float32)
    opaque(
        model,
        f"uses tensor 0 (image), which must have scales that are positive and finite, not {scale}",
    )


def test_sparse_tensor(schema, model):
    model.subgraphs[0].tensors[1].sparsity = schema.SparsityParametersT()
    name = model.subgraphs[0].tensors[1].name.decode()
    opaque(model, f"uses tensor 1 ({name}), which is sparse", interpreters=INTERPRETERS[1:])


def test_negative_dimension(model):
    model.subgraphs[0].tensors[0].shape = np.array([1, -1, 8, 1], np.int32)
    refused(
        model,
        "operator 0 (CONV_2D) uses tensor 0 (image), which must have dimensions of at least 0, "
        "not (1, -1, 8, 1)",
    )


def attempt(content):
    """Load a file that may be broken; return the message, or None."""
    sentence = None
    try:
        frontend.load(content)
    except ModelError as error:
        sentence = str(error)
    assert sentence is None or "\n" not in sentence
    return sentence


def test_truncated_files_are_refused():
    for length in range(8, len(DIGITS) - 1, 61):
        sentence = attempt(DIGITS[:length])
        assert sentence is None or sentence.startswith("model")
    assert attempt(DIGITS[: len(DIGITS) // 2]) is not None


def test_flipped_bytes_are_refused_or_read(seed):
    generator = np.random.default_rng(seed)
    refusals = 0
    for _ in range(250):
        content = bytearray(DIGITS)
        for _ in range(int(generator.integers(1, 6))):
            # The tables lie among the constants; most defects are to hit tables.
            content[int(generator.integers(8, len(content)))] = int(generator.integers(256))
        refusals += attempt(bytes(content)) is not None
    assert refusals > 7


def test_tensors_are_no_larger_than_a_run_can_hold(model):
    """Otherwise a shape of four bytes in the file would allocate gigabytes."""
    model.subgraphs[0].tensors[0].shape = np.array([2**30, 2, 1, 1], np.int32)
    with pytest.raises(ModelError, match="must have at most 1073741824 bytes, not 2147483648"):
        frontend.load(pack(model))
