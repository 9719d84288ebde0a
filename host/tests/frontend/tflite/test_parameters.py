"""Parameters given as tensors: the reason stated for each contradiction."""

from dataclasses import replace

import flatbuffers
import numpy as np
import pytest

from matloom import frontend
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import (
    Axis,
    Pad,
    Reduce,
    Resize,
    Slice,
    Split,
    Transpose,
    TransposeConv,
)
from matloom.ir.graph import Op
from matloom.verification.random_operators import RandomOperators

runtime = pytest.importorskip(
    "tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed"
)
schema = runtime.schema_fb

ATTRIBUTES = {
    Op.ARG_MAX: Axis(axis=1),
    Op.CONCATENATION: Axis(axis=1),
    Op.MEAN: Reduce(axes=(1, 2), keep_dims=True),
    Op.PACK: Axis(axis=1),
    Op.PAD: Pad(before=(0, 1, 2, 0), after=(0, 0, 1, 0)),
    Op.RESIZE_NEAREST_NEIGHBOR: Resize(size=(8, 8), align_corners=False, half_pixel_centers=False),
    Op.SLICE: Slice(begin=(0, 1, 0, 0), size=(1, 2, 4, 2), step=(1, 1, 1, 1)),
    Op.SPLIT: Split(axis=1, sizes=(2, 2)),
    Op.SPLIT_V: Split(axis=1, sizes=(1, 3)),
    Op.STRIDED_SLICE: Slice(begin=(0, 3, 0, 0), size=(1, 2, 4, 2), step=(1, -2, 1, 1)),
    Op.TRANSPOSE: Transpose(permutation=(0, 2, 1, 3)),
    Op.TRANSPOSE_CONV: TransposeConv(stride=(2, 2), size=(9, 9)),
}

WRONG_IMAGE = "does not fit its inputs: an output of (9, 9) needs an image of (4, 7), not (4, 4)"


def model(op):
    """Return the objects of a network of one operator on an image of 4x4x2."""
    instances = RandomOperators(0)
    image = instances._tensor("image", (1, 4, 4, 2))
    inputs = [image]
    if op in (Op.CONCATENATION, Op.PACK):
        inputs = [image, replace(image, name="second")]
    if op is Op.TRANSPOSE_CONV:
        inputs = [image, instances._weights((3, 3, 3, 2), 0)]
    content = write_tflite(instances.network(op, inputs, ATTRIBUTES[op]))
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))


def load(file):
    builder = flatbuffers.Builder(1024)
    builder.Finish(file.Pack(builder), b"TFL3")
    return frontend.load(bytes(builder.Output()))


def contradicts(file, reason):
    """Check that an operator is left to the interpreter, and the stated reason."""
    (node,) = load(file).nodes
    assert node.op is Op.REFERENCE
    assert node.attributes.reasons == (reason,)
    assert node.attributes.interpreters == ("ai-edge-litert",)


def set_parameter(file, at, values):
    """Replace the integers of the operator's input `at`."""
    graph = file.subgraphs[0]
    tensor = graph.tensors[graph.operators[0].inputs[at]]
    tensor.shape = np.array([len(values)], np.int32)
    file.buffers[tensor.buffer].data = np.array(values, np.int32).view(np.uint8)


@pytest.mark.parametrize("op", ATTRIBUTES)
def test_sound_files_read_back(op):
    (node,) = load(model(op)).nodes
    assert (node.op, node.attributes) == (op, ATTRIBUTES[op])


@pytest.mark.parametrize(
    ("op", "at", "values", "sentence"),
    [
        (Op.ARG_MAX, 1, [4], "must have an axis of -4 to 3, not 4"),
        (Op.ARG_MAX, 1, [1, 2], "must have 1 axis, not 2"),
        (Op.MEAN, 1, [-5], "must have an axis of -4 to 3, not -5"),
        (Op.PAD, 1, [1, 2, 3], "must have 2 paddings for each axis, not 3"),
        (Op.RESIZE_NEAREST_NEIGHBOR, 1, [8], "must have a size of height and width, not [8]"),
        (
            *(Op.SLICE, 1, [0, 1]),
            "must have begin and size for 4 axes, not [0, 1] and [1, 2, 4, 2]",
        ),
        (
            *(Op.SLICE, 1, [0, 3, 0, 0]),
            "does not fit its inputs: a slice must lie within 0 to 3, not 3 to 4",
        ),
        (Op.SPLIT, 0, [9], "must have an axis of -4 to 3, not 9"),
        (Op.SPLIT, 0, [0], "must have outputs that divide 1, not 2"),
        (Op.SPLIT_V, 1, [2, 3], "does not fit its inputs: the parts must add up to 4, not (2, 3)"),
        (Op.STRIDED_SLICE, 3, [1, 0, 1, 1], "must have strides other than 0, not 0"),
        (
            *(Op.STRIDED_SLICE, 1, [0] * 5),
            "must have begin, end and strides for 4 axes, not [0, 0, 0, 0, 0]",
        ),
        (
            *(Op.TRANSPOSE, 1, [0, 1, 1, 3]),
            "does not fit its inputs: the permutation must name 4 axes once, not (0, 1, 1, 3)",
        ),
        (
            *(Op.PAD, 1, [0, 0, 1, -2, 0, 0, 0, 0]),
            "does not fit its inputs: padding must be 0 or more, not (0, -2, 0, 0)",
        ),
    ],
)
def test_parameters(op, at, values, sentence):
    file = model(op)
    set_parameter(file, at, values)
    contradicts(file, f"{op} {sentence}")


def test_sizes_leave_one_open():
    file = model(Op.SPLIT_V)
    set_parameter(file, 1, [1, -1])
    assert load(file).nodes[0].attributes == ATTRIBUTES[Op.SPLIT_V]


def test_a_slice_to_the_end():
    file = model(Op.SLICE)
    set_parameter(file, 2, [1, 2, -1, -1])
    assert load(file).nodes[0].attributes == ATTRIBUTES[Op.SLICE]


@pytest.mark.parametrize(
    ("op", "change", "sentence"),
    [
        (Op.CONCATENATION, {"axis": 7}, "must have an axis of -4 to 3, not 7"),
        (Op.PACK, {"axis": 5}, "must have an axis of -5 to 4, not 5"),
        (Op.TRANSPOSE_CONV, {"strideW": 0}, "must have a stride of at least 1, not (2, 0)"),
        (Op.TRANSPOSE_CONV, {"padding": 7}, "must have a padding of SAME or VALID, not 7"),
        (Op.TRANSPOSE_CONV, {"strideW": 1}, WRONG_IMAGE),
    ],
)
def test_options(op, change, sentence):
    file = model(op)
    for name, value in change.items():
        setattr(file.subgraphs[0].operators[0].builtinOptions, name, value)
    contradicts(file, f"{op} {sentence}")


@pytest.mark.parametrize(
    ("op", "change", "reason"),
    [
        (Op.STRIDED_SLICE, {"ellipsisMask": 1}, "has an ellipsis or a new axis"),
        (Op.STRIDED_SLICE, {"offset": True}, "has ends relative to its begins"),
        (Op.CONCATENATION, {"fusedActivationFunction": 1}, "has a fused activation"),
        (Op.TRANSPOSE_CONV, {"fusedActivationFunction": 1}, "has a fused activation"),
    ],
)
def test_options_for_a_reference_interpreter(op, change, reason):
    file = model(op)
    for name, value in change.items():
        setattr(file.subgraphs[0].operators[0].builtinOptions, name, value)
    (node,) = load(file).nodes
    assert node.op is Op.REFERENCE
    assert node.attributes.reasons == (f"{op} {reason}",)


def test_a_variable_parameter():
    file = model(Op.PAD)
    graph = file.subgraphs[0]
    parameter = graph.operators[0].inputs[1]
    file.buffers[graph.tensors[parameter].buffer].data = None
    graph.inputs = np.array([*graph.inputs, parameter], np.int32)
    (node,) = load(file).nodes
    assert node.attributes.reasons == ("PAD has a variable padding",)
    assert node.inputs[:-1] == (0, parameter)


def test_a_parameter_of_floats():
    file = model(Op.PAD)
    graph = file.subgraphs[0]
    graph.tensors[graph.operators[0].inputs[1]].type = schema.TensorType.FLOAT32
    contradicts(file, "PAD must have a padding of integers, not float32")


def test_no_parameter():
    file = model(Op.PAD)
    file.subgraphs[0].operators[0].inputs = np.array([0], np.int32)
    contradicts(file, "PAD must have its padding as input 1, not 1 inputs")


def gathered(indices, axis=1, batch=0, shape=None):
    """Return the objects of a GATHER from a 4x4x2 image."""
    file = model(Op.SLICE)
    graph = file.subgraphs[0]
    operator = graph.operators[0]
    file.operatorCodes[0].builtinCode = schema.BuiltinOperator.GATHER
    file.operatorCodes[0].deprecatedBuiltinCode = schema.BuiltinOperator.GATHER
    operator.builtinOptionsType = schema.BuiltinOptions.GatherOptions
    operator.builtinOptions = schema.GatherOptionsT()
    operator.builtinOptions.axis, operator.builtinOptions.batchDims = axis, batch
    set_parameter(file, 1, indices)
    shape = [len(indices)] if shape is None else shape
    graph.tensors[operator.inputs[1]].shape = np.array(shape, np.int32)
    operator.inputs = operator.inputs[:2]
    lengths = [1, 4, 4, 2]
    lengths[axis : axis + 1 or None] = shape
    graph.tensors[operator.outputs[0]].shape = np.array(lengths, np.int32)
    return file


@pytest.mark.parametrize("indices", [[1], [0, 1, 3], [1, 1], [3, 1, 2]])
def test_a_gather_keeps_its_indices(indices):
    graph = load(gathered(indices))
    (node,) = graph.nodes
    assert (node.op, node.attributes) == (Op.GATHER, Axis(axis=1))
    assert graph.tensors[node.inputs[1]].data.tolist() == indices


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (gathered([-1]), "GATHER has indices beyond 0 to 3"),
        (gathered([0, 4]), "GATHER has indices beyond 0 to 3"),
        (gathered([0, 1], batch=1), "GATHER has indices for each batch"),
    ],
)
def test_other_gathers_are_left_to_an_interpreter(file, reason):
    (node,) = load(file).nodes
    assert node.attributes.reasons == (reason,)
