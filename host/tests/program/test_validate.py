"""Rules between the parts of a program: each with a program or file that breaks it."""

from dataclasses import asdict, replace

import numpy as np
import pytest

import matloom
from matloom.arch.config import PRESETS
from matloom.arch.isa import Region
from matloom.compiler import CompileOptions, compile_network
from matloom.data.matrix_products import product_graph
from matloom.ir.attributes import Reference
from matloom.ir.graph import Op
from matloom.program import Binding, Program, ProgramError, Quantised
from matloom.program.validate import validate
from matloom.verification.random_operators import RandomOperators

NANO = PRESETS["nano"]


def refused(program, sentence):
    with pytest.raises(ProgramError, match=sentence):
        validate(program)


def with_step(program, number, **values):
    steps = list(program.steps)
    steps[number] = replace(steps[number], **values)
    return replace(program, steps=tuple(steps))


def test_an_input_bound_over_the_commands_is_refused_at_load(digits, parts, tmp_path):
    """A file with a valid checksum would run its own input as commands."""
    step = digits.steps[0]
    path = tmp_path / "net.mloom"
    moved = parts.with_word("bindings", 0, "region", int(Region.PROGRAM))
    moved = moved.with_word("bindings", 0, "offset", step.command_offset)
    path.write_bytes(moved.to_bytes())
    with pytest.raises(ProgramError, match="must be in region INPUT, not PROGRAM"):
        matloom.load(path, "model")


@pytest.mark.parametrize("offset", [2**20, 2**32 - 64, 64])
def test_a_binding_beyond_its_region_is_refused(parts, offset):
    changed = parts.with_word("bindings", 0, "offset", offset)
    with pytest.raises(ProgramError, match=r"region INPUT must have \d+ to \d+ bytes"):
        Program.from_bytes(changed.to_bytes())


def test_bindings(digits):
    (given,) = digits.steps[0].inputs
    for offset in (-64, 8):
        moved = with_step(digits, 0, inputs=(replace(given, offset=offset),))
        refused(moved, f"must have an offset that is a multiple of 64, not {offset}")
    other = replace(given, shape=(1, 8, 4, 1))
    refused(with_step(digits, 0, inputs=(other,)), "INPUT must have|must bind one of")
    refused(
        with_step(digits, 0, inputs=(replace(given, dtype="uint8"),)),
        r"step 0 \(engine\) must bind one of the program's tensors: 'image'",
    )


def test_bindings_share_all_bytes_or_none():
    graph = RandomOperators([3, 1], "int8", engine=True).make(Op.MAXIMUM)
    program = compile_network(product_graph(64, 64, 64), NANO)
    (given,) = program.steps[0].inputs
    twin = replace(program.tensors[0], name="twin")
    both = (
        given,
        Binding(name="twin", region=given.region, offset=0, shape=given.shape, dtype="int8"),
    )
    shared = with_step(
        replace(
            program,
            tensors=(*program.tensors, twin),
            inputs=(*program.inputs, twin),
            region_bytes={**program.region_bytes, Region.INPUT: 4096 + 64},
        ),
        0,
        inputs=both,
    )
    refused(shared, "region INPUT must have 4096 to 4096 bytes for its tensors, not 4160")
    apart = replace(shared, region_bytes={**program.region_bytes, Region.INPUT: 4096})
    validate(apart)
    overlapping = with_step(shared, 0, inputs=(given, replace(both[1], offset=64)))
    refused(overlapping, "bindings must share all bytes or none, unlike 'a' and 'twin'")
    assert graph.nodes


def test_regions(digits):
    sizes = digits.region_bytes
    more = replace(digits, region_bytes={**sizes, Region.ARENA: 2**27})
    refused(more, "all regions must have at most 134217728 bytes, not")
    shorter = replace(digits, image=digits.image[:-16])
    refused(shorter, "region PROGRAM must have the image's")


def test_tensors(digits):
    first = digits.tensors[0]

    def changed(**values):
        info = replace(first, **values)
        return replace(digits, tensors=(info, *digits.tensors[1:]), inputs=(info,))

    assert digits.inputs == (first,)
    refused(replace(digits, tensors=(*digits.tensors, first)), "tensor names must differ, but")
    refused(changed(shape=(1, -1)), "must have dimensions of at least 0, not")
    refused(changed(shape=(2**31 - 1,) * 16), "must have at most 1073741824 bytes, not")
    many = tuple(replace(first, name=str(at), shape=(2**30,)) for at in range(5))
    every = replace(digits, tensors=(*digits.tensors, *many))
    refused(every, "all tensors must have at most 2147483648 bytes, not")
    refused(changed(dtype="complex128"), "must be of a known type, not 'complex128'")
    for scale in (0.0, -1.0, float("inf"), float("nan")):
        refused(
            changed(quantised=Quantised(scale=scale, zero_point=0)),
            "a program: tensor 0 .* must have scales that are positive and finite",
        )
    refused(changed(quantised=Quantised(scale=1.0, zero_point=128)), "zero points of -128 to 127")
    refused(changed(name="other"), "step 0 must read an input or an earlier result, not")


@pytest.fixture(scope="module")
def hosted():
    """Return a program with one layer on the host, with scaled constants."""
    graph = RandomOperators([4, 4], "uint8").make(Op.TRANSPOSE_CONV)
    return compile_network(graph, NANO)


def test_constants(hosted):
    first = hosted.constants[0]

    def changed(**values):
        return replace(hosted, constants=(replace(first, **values), *hosted.constants[1:]))

    refused(replace(hosted, constants=(first, first)), "constant names must differ, but")
    refused(changed(offset=8), "must begin at a multiple of 16, not 8")
    refused(changed(offset=-16), "must lie within \\d+ bytes, not end at")
    refused(changed(offset=2**20), "must lie within \\d+ bytes, not end at")
    refused(changed(shape=(2**12, 2**12)), "must lie within \\d+ bytes, not end at")
    refused(changed(shape=(-1, -4)), "must have dimensions of at least 0, not")
    refused(changed(scales=()), "must have scales for its zero points")
    namesake = replace(hosted.tensors[0], name=first.name)
    twice = replace(hosted, tensors=(*hosted.tensors, namesake))
    refused(twice, "must be as the tensor of its name")


def test_order(digits):
    refused(
        replace(digits, steps=digits.steps[::-1]), "step 0 must read an input or an earlier result"
    )
    refused(replace(digits, steps=digits.steps[:1]), "output '.*' must be made by a step")
    refused(
        replace(digits, steps=(*digits.steps, digits.steps[1])),
        "step 2 must not provide",
    )
    refused(replace(digits, inputs=digits.inputs * 2), "input names must differ, but 'image'")
    stranger = replace(digits.inputs[0], name="stranger")
    refused(replace(digits, inputs=(stranger,)), "input 'stranger' must be one of the program's")


def test_commands(digits):
    step = digits.steps[0]
    for name in ("command_offset", "command_bytes"):
        moved = with_step(digits, 0, **{name: getattr(step, name) + 8})
        refused(moved, f"{name} must be a multiple of 16, not")
    refused(with_step(digits, 0, command_offset=-16), "must have commands, not")
    refused(with_step(digits, 0, command_bytes=0), "must have commands, not 0 bytes")
    refused(with_step(digits, 0, command_bytes=2**20), "commands must end within the image's")


def test_repetitions(small_product):
    program = compile_network(small_product, NANO, CompileOptions(resident=True))
    repeat = program.repeat
    for kept in (((0, NANO.spad_bytes + 1),), ((-1, 3),), ((4, 4),), ((8, 12), (0, 4))):
        changed = with_step(program, 0, repeat=replace(repeat, kept=kept))
        refused(changed, "kept bytes must lie in")
    moved = with_step(program, 0, repeat=replace(repeat, command_offset=2**20))
    refused(moved, "the repetition: commands must end within")


def test_host_steps(digits):
    (step,) = digits.steps[1:]
    refused(with_step(digits, 1, operator="DREAM"), "operator must have a kernel, not 'DREAM'")
    refused(with_step(digits, 1, attributes={}), r"SOFTMAX must have the attributes \['beta'\]")
    refused(
        with_step(digits, 1, operator="RELU", attributes={}, inputs=step.inputs * 2),
        r"step 1: operator 0 \(RELU\) of int8 int8 -> int8 runs neither",
    )


def test_layers_that_only_the_engine_runs():
    graph = RandomOperators([4, 4], "float32").make(Op.FULLY_CONNECTED)
    program = compile_network(graph, NANO)
    given = replace(program.tensors[0], dtype="uint16")
    assert program.inputs == (program.tensors[0],)
    lowered = replace(program, tensors=(given, *program.tensors[1:]), inputs=(given,))
    refused(
        lowered, r"step 0 \(FULLY_CONNECTED\) must have a kernel, and uint16 float32 .* has none"
    )


def test_references():
    values = asdict(Reference(operators=("X",), reasons=("",)))
    program = compile_network(RandomOperators([4, 4], "uint8").make(Op.RELU), NANO)
    step = replace(program.steps[0], operator="REFERENCE", attributes=values)
    refused(replace(program, steps=(step,)), "must have a model file of uint8 as its last input")


def test_layers(digits):
    first = digits.layers[0]

    def changed(**values):
        return replace(digits, layers=(replace(first, **values), *digits.layers[1:]))

    refused(changed(where="moon"), "must run at one of none, engine, host, not 'moon'")
    refused(changed(timestamp=64), "must have a timestamp slot of 0 to 63, not 64")
    refused(changed(mode="bf16"), "must have modes of i8xi8, not 'bf16'")


def test_runnable_files_are_accepted(digits):
    validate(digits)
    with matloom.load(Program.from_bytes(digits.to_bytes()), "model") as session:
        assert session.run(np.zeros((1, 8, 8, 1), np.int8)).shape == (1, 10)


def test_a_tensor_may_be_read_twice():
    graph = RandomOperators([4, 4], "uint8").make(Op.RELU)
    program = compile_network(graph, NANO)
    (step,) = program.steps
    double = with_step(
        program, 0, operator="MAXIMUM", attributes={}, inputs=step.inputs * 2, reason=""
    )
    data = double.to_bytes()
    given = np.full(program.inputs[0].shape, 7, np.uint8)
    with matloom.load(Program.from_bytes(data), "model") as session:
        assert (session.run(given) == 7).all()
