"""Resource variables of model files: order of accesses, initial values, and refusals."""

import flatbuffers
import numpy as np
import pytest

from matloom import frontend
from matloom.data.growth import Growth
from matloom.data.streaming import streaming_network
from matloom.frontend.errors import ModelError
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Op
from matloom.ir.text import to_text
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret, next_state
from matloom.passes import run_passes
from matloom.tools.compare import compare

#: Operators of the file of `running_total`, in order.
CALL_ONCE, VAR_HANDLE, READ, ADD, ASSIGN = range(5)


def running_total():
    """Return a network that sums its inputs in a variable, which starts at 5 and -3."""
    growth = Growth((1,))
    given = growth.input((1, 2), "int8")
    kept = growth.tensors[given].quantisation
    before = growth.variable((1, 2), "int8", kept)
    growth.values[before] = np.array([[5, -3]], np.int8)
    (after,) = growth.operator(Op.ADD, [before, given], Arithmetic())
    growth.assign(before, after)
    return growth.graph("total", [given], [after])


@pytest.fixture
def schema():
    """Return the official schema's objects, to modify a model with."""
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed"
    )
    return runtime.schema_fb


@pytest.fixture
def model(schema):
    content = write_tflite(running_total())
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))


def pack(model):
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_a_file_reads_back_as_the_same_step():
    graph = streaming_network(3)
    again = frontend.load(write_tflite(graph))
    ends = [line for line in to_text(again).splitlines()[1:] if ":" not in line.split()[0]]
    assert ends == [line for line in to_text(graph).splitlines()[1:] if ":" not in line.split()[0]]
    for one, other in zip(graph.variables, again.variables, strict=True):
        assert (one.name, one.before, one.after) == (other.name, other.before, other.after)
        np.testing.assert_array_equal(one.initial, other.initial)
    assert [node.op for node in again.nodes] == [node.op for node in graph.nodes]


def test_steps_follow_one_another_as_in_the_reference():
    assert compare(write_tflite(streaming_network(4))).equal
    comparison = compare(write_tflite(running_total()))
    assert comparison.samples == 4
    assert comparison.equal


def test_a_step_is_a_function_of_inputs_and_variables():
    graph = running_total()
    (variable,), (given,) = graph.variables, graph.inputs
    one = np.array([[1, 1]], np.int8)
    first = interpret(graph, {given: one})
    assert first[variable.after].tolist() == interpret(graph, {given: one})[variable.after].tolist()
    second = interpret(graph, {given: one, **next_state(graph, first)})
    assert second[variable.after].tolist() != first[variable.after].tolist()


def test_reads_after_an_assignment_find_it(model):
    """The network then returns the assigned value."""
    step = model.subgraphs[0]
    read = step.operators[READ]
    again = type(read)(**{**vars(read), "outputs": np.array([len(step.tensors)], np.int32)})
    tensor = step.tensors[read.outputs[0]]
    step.tensors.append(type(tensor)(**{**vars(tensor), "name": "again"}))
    step.operators.append(again)
    step.outputs = again.outputs
    graph = frontend.load(pack(model))
    assert [node.op for node in graph.nodes] == [Op.ADD, Op.RESHAPE]
    assert graph.nodes[1].inputs == (graph.variables[0].after,)
    assert compare(pack(model)).equal


def test_an_unassigned_variable_is_constant(model):
    step = model.subgraphs[0]
    del step.operators[ASSIGN]
    graph = frontend.load(pack(model))
    assert graph.variables == ()
    (constant,) = (each for each in graph.tensors.values() if each.data is not None)
    assert constant.data.tolist() == [[5, -3]]
    assert compare(pack(model)).equal


def test_an_unread_variable_is_kept(model):
    step = model.subgraphs[0]
    step.operators[ADD].inputs = step.inputs[[0, 0]]
    del step.operators[READ]
    graph = run_passes(frontend.load(pack(model)))
    verify(graph, "a test")
    (variable,) = graph.variables
    assert variable.initial.tolist() == [[5, -3]]
    assert graph.consumers[variable.before] == ()
    assert variable.after in graph.leaving


def refused(model, sentence):
    with pytest.raises(ModelError) as error:
        frontend.load(pack(model))
    assert str(error.value) == f"model: {sentence}"


def test_reading_an_unassigned_variable(model):
    del model.subgraphs[0].operators[CALL_ONCE]
    del model.subgraphs[1]
    whole(model, "READ_VARIABLE must read variable 'v0' after it is assigned, not before")


def test_two_assignments(model):
    operators = model.subgraphs[0].operators
    operators.append(operators[ASSIGN])
    whole(model, "ASSIGN_VARIABLE must assign variable 'v0' once in a call, not twice")


def test_another_shape(model):
    start = model.subgraphs[1]
    start.tensors[1].shape = np.array([2, 1], np.int32)
    whole(model, "variable 'v0' must be int8 (2, 1) wherever it is used, not int8 (1, 2)")


def test_another_type(model, schema):
    for tensor in model.subgraphs[0].tensors[:3]:
        tensor.type = schema.TensorType.UINT8
    whole(model, "variable 'v0' must be int8 (1, 2) wherever it is used, not uint8 (1, 2)")


def test_no_handle(model):
    model.subgraphs[0].operators[READ].inputs = np.array([0], np.int32)
    refused(model, "operator 2 (READ_VARIABLE) must use the handle of a variable, not tensor 0")


def test_other_numbers_of_tensors(model):
    model.subgraphs[0].operators[ASSIGN].inputs = np.array([3], np.int32)
    refused(
        model, "operator 4 (ASSIGN_VARIABLE) must have 2 and 0 inputs and outputs, not [3] and []"
    )


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (0, "operator 0 (CALL_ONCE) must name a subgraph of 1 to 1, not 0"),
        (2, "operator 0 (CALL_ONCE) must name a subgraph of 1 to 1, not 2"),
    ],
)
def test_no_initialisation(model, number, sentence):
    model.subgraphs[0].operators[CALL_ONCE].builtinOptions.initSubgraphIndex = number
    refused(model, sentence)


def whole(model, reason):
    (node,) = frontend.load(pack(model)).nodes
    assert node.op is Op.REFERENCE
    assert set(node.attributes.reasons) == {f"the network runs as a whole: {reason}"}


def test_inputs_that_the_interpreter_refuses(model, schema):
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.EXP
    model.operatorCodes.append(code)
    exponential = schema.OperatorT()
    exponential.opcodeIndex = len(model.operatorCodes) - 1
    exponential.inputs, exponential.outputs = np.array([1]), np.array([1])
    model.subgraphs[1].operators.insert(1, exponential)
    whole(
        model,
        "CALL_ONCE names subgraph 1, whose operator 1 (EXP) has no kernel here",
    )


def test_a_late_initialisation(model):
    operators = model.subgraphs[0].operators
    operators.insert(VAR_HANDLE, operators.pop(CALL_ONCE))
    assert len(frontend.load(pack(model)).variables) == 1
    operators.insert(READ, operators.pop(CALL_ONCE + 1))
    whole(model, "READ_VARIABLE must read variable 'v0' after it is assigned, not before")


def test_variables_around_an_operator_without_a_kernel(model, schema):
    """Only the operator runs on the interpreter; the session keeps the variable."""
    step = model.subgraphs[0]
    code = model.operatorCodes[step.operators[ADD].opcodeIndex]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.ADD_N
    step.operators[ADD].builtinOptions = schema.AddNOptionsT()
    step.operators[ADD].builtinOptionsType = schema.BuiltinOptions.AddNOptions
    graph = frontend.load(pack(model))
    assert [node.op for node in graph.nodes] == [Op.REFERENCE]
    assert len(graph.variables) == 1
    assert compare(pack(model)).equal
