"""IF and WHILE between operators of the engine: what runs where, and what stays together.

Expected numbers are those of LiteRT's reference kernels on the whole file.
"""

from dataclasses import replace

import numpy as np
import pytest

import matloom
from matloom import frontend

interpreter = pytest.importorskip(
    "ai_edge_litert.interpreter", reason="ai-edge-litert is not installed"
)
schema = pytest.importorskip("ai_edge_litert.schema_py_generated")

control = pytest.importorskip("support.control_tflite")
Op, Kind, File, calls = control.Op, control.Kind, control.File, control.calls
layers_in_a_loop, layers_in_branches = control.layers_in_a_loop, control.layers_in_branches
expected = control.expected
FAST = {"device": "model", "config": "nano", "check": "full"}
X = np.random.default_rng(0).integers(-128, 128, (1, 4)).astype(np.int8)


def loop(counter=Kind.INT32):
    """Return RELU, three times x + x with a counter, RELU6; or with a condition on x itself."""
    file = File()
    i, x = ("i", Kind.INT32), ("x", Kind.INT8)
    add = schema.AddOptionsT()
    before = (Op.RELU, ["x"], [("a", Kind.INT8)], None)
    made = [("n", Kind.INT32), ("b", Kind.INT8)]
    loop = (Op.WHILE, ["i", "a"], made, calls("WHILE", 1, 2))
    after = (Op.RELU6, ["b"], [("y", Kind.INT8)], None)
    file.subgraph([i, x], [before, loop, after], ["n", "y"])
    less = (Op.LESS, ["i", "end"], [("go", Kind.BOOL)], schema.LessOptionsT())
    if counter != Kind.INT32:
        less = (Op.LESS, ["x", "x"], [("go", Kind.BOOL)], schema.LessOptionsT())
    file.subgraph([i, x], [less], ["go"], {"end": [3]})
    counted = (Op.ADD, ["i", "one"], [("n", Kind.INT32)], add)
    doubled = (Op.ADD, ["x", "x"], [("y", Kind.INT8)], add)
    file.subgraph([i, x], [counted, doubled], ["n", "y"], {"one": [1]})
    return file


def choice():
    """Return RELU, then x + x or RELU6 by a condition, then RELU6."""
    file = File()
    c, x = ("c", Kind.BOOL), ("x", Kind.INT8)
    before = (Op.RELU, ["x"], [("a", Kind.INT8)], None)
    loop = (Op.IF, ["c", "a"], [("b", Kind.INT8)], calls("IF", 1, 2))
    after = (Op.RELU6, ["b"], [("y", Kind.INT8)], None)
    file.subgraph([c, x], [before, loop, after], ["y"])
    doubled = (Op.ADD, ["x", "x"], [("y", Kind.INT8)], schema.AddOptionsT())
    file.subgraph([x], [doubled], ["y"])
    file.subgraph([x], [(Op.RELU6, ["x"], [("z", Kind.INT8)], None)], ["z"])
    return file


@pytest.mark.parametrize("device", ["model", pytest.param("rtl", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("file", "name", "inputs"),
    [
        (loop, "WHILE", [{"i": np.array([i], np.int32), "x": X} for i in (0, 2, 7)]),
        (choice, "IF", [{"c": np.array([c]), "x": X} for c in (False, True)]),
    ],
)
def test_neighbouring_operators_run_on_the_engine(file, name, inputs, device):
    content = file().content()
    with matloom.load(content, **{**FAST, "device": device}) as session:
        places = [(layer.operator, layer.where) for layer in session.program.layers]
        assert places == [("RELU", "engine"), (name, "host"), ("RELU6", "engine")]
        for given in inputs:
            found, wanted = session.run(given), expected(content, given)
            assert found.keys() == wanted.keys()
            for key, array in found.items():
                np.testing.assert_array_equal(array, wanted[key])


def with_state(file):
    file.model.subgraphs[2].tensors[0].isVariable = True


def of_another_shape(file):
    file.model.subgraphs[2].tensors[-1].shape = [1, 1, 4]


def of_open_size(file):
    file.model.subgraphs[2].tensors[-1].shapeSignature = [1, -1]


def nested(file):
    file.model.subgraphs[2].operators[1].opcodeIndex = (
        file.model.subgraphs[0].operators[1].opcodeIndex
    )


def beyond(file):
    file.model.subgraphs[0].operators[1].builtinOptions.bodySubgraphIndex = 9


@pytest.mark.parametrize("change", [with_state, of_another_shape, of_open_size, nested, beyond])
def test_dependent_operators_stay_in_one_piece(change):
    file = loop()
    change(file)
    (node,) = frontend.load(file.content()).nodes
    assert set(node.attributes.reasons) == {"WHILE ties the network's parts together"}


def test_a_loop_until_numbers_are_reached_stays_in_one_piece():
    """With the random inputs of the checks, it might not end."""
    (node,) = frontend.load(loop(counter=Kind.INT8).content()).nodes
    assert node.attributes.positions == ()


IMAGES = np.random.default_rng(4).integers(-128, 128, (2, 1, 6, 5, 4)).astype(np.int8)


@pytest.mark.parametrize("device", ["model", pytest.param("rtl", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("file", "layers", "inputs"),
    [
        (layers_in_a_loop, 3, [{"x": x} for x in IMAGES]),
        (lambda: layers_in_a_loop(0), 0, [{"x": x} for x in IMAGES]),
        (layers_in_branches, 3, [{"c": np.array([c]), "x": IMAGES[0]} for c in (False, True)]),
    ],
)
def test_layers_in_branches_and_loops_run_on_the_engine(file, layers, inputs, device):
    content = file().content()
    with matloom.load(content, **{**FAST, "device": device}) as session:
        places = [(layer.operator, layer.where) for layer in session.program.layers]
        assert places.count(("CONV_2D", "engine")) == layers
        assert not {"IF", "WHILE"} & {name for name, _ in places}
        for given in inputs:
            found, wanted = session.run(given), expected(content, given)
            assert found.keys() == wanted.keys()
            for key, array in found.items():
                np.testing.assert_array_equal(array, wanted[key])


def of_another_scale(file):
    file.model.subgraphs[2].tensors[-1].quantization.scale = [0.2]


def too_long(file):
    file.model.buffers[file.model.subgraphs[1].tensors[2].buffer].data = np.frombuffer(
        np.int32(10_000).tobytes(), np.uint8
    )


@pytest.mark.parametrize(
    ("file", "change"),
    [
        (lambda: layers_in_a_loop(counted=False), lambda file: None),
        (layers_in_a_loop, of_another_scale),
        pytest.param(layers_in_a_loop, too_long, marks=pytest.mark.slow),
    ],
    ids=["count", "scale", "length"],
)
def test_turns_of_other_loops_run_on_the_engine(file, change):
    """The host counts, and the images stay in the device's memory from iteration to iteration."""
    network = file()
    change(network)
    content = network.content()
    with matloom.load(content, **{**FAST, "check": "none"}) as session:
        assert [step.kind for step in session.program.steps] == ["host", "engine"]
        body, condition = session.program.loops[0]
        assert [variable.place is not None for variable in body.variables] == [True]
        assert not condition.engine_macs
        for count in (0, 2, 9):
            given = {"i": np.array([count], np.int32), "x": IMAGES[0]}
            given = {info.name: given[info.name] for info in session.program.inputs}
            found, wanted = session.run(given), expected(content, given)
            for key, array in found.items():
                np.testing.assert_array_equal(array, wanted[key])


def test_a_damaged_loop_is_refused():
    content = layers_in_a_loop(counted=False).content()
    program = matloom.compile(content, "nano", check="none")
    step, *others = program.steps
    places = {item.name: item.offset for item in program.constants}

    def with_step(**fields):
        return replace(program, steps=(replace(step, **fields), *others), origin=None)

    def changed(**attributes):
        return with_step(attributes={**step.attributes, **attributes})

    body = bytearray(program.host_data)
    body[places[step.inputs[-2]] + 200] ^= 1
    for damaged, message in (
        (changed(carried=9), "must have 11 inputs or more, not 4"),
        (changed(results=(0,)), "must have the places of its 2 outputs, not 1"),
        (changed(results=(0, 7)), "must not have the result 7"),
        (changed(results=(1, 0)), "result 1 of a loop must be"),
        (with_step(inputs=(*step.inputs[1::-1], *step.inputs[2:])), "inputs of a body"),
        (changed(conditional=False), "must have 5 inputs or more, not 4"),
        (replace(program, origin=None, host_data=bytes(body)), "checksum"),
    ):
        with pytest.raises(matloom.program.ProgramError, match=message):
            matloom.load(matloom.Program.from_bytes(damaged.to_bytes()), device="model")
