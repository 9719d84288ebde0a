"""Rules of variables in a program: each with a program or file that breaks it."""

from dataclasses import replace

import numpy as np
import pytest

from matloom.arch.isa import Region
from matloom.compiler import compile_network
from matloom.data.streaming import streaming_network
from matloom.program import Program, ProgramError
from matloom.program.validate import validate
from support.file_edits import FileParts


@pytest.fixture(scope="module")
def program():
    return compile_network(streaming_network(6, layers=1), "nano", check="none")


def refused(program, sentence):
    with pytest.raises(ProgramError, match=sentence):
        validate(program)


def with_variable(program, number=0, **values):
    variables = list(program.variables)
    variables[number] = replace(variables[number], **values)
    return replace(program, variables=tuple(variables))


def test_a_file_holds_them(program):
    content = program.to_bytes()
    assert Program.from_bytes(content) == program
    assert Program.from_bytes(content).to_bytes() == content
    for array in program.initial_state().values():
        assert array.dtype == np.int8


def test_a_reader_must_know_them(program, parts):
    """The section is marked as required; files without variables do not have it."""
    flags, count, _data = FileParts.of(program.to_bytes()).sections[21]
    assert (flags, count) == (1, 3)
    assert 21 not in parts.sections


def test_names_and_tensors(program):
    refused(with_variable(program, name="v1"), "variable names must differ, but 'v1' occurs twice")
    refused(with_variable(program, after="x"), "'v0' must have tensors of the program, not 'x'")
    other = program.variables[1].after
    refused(with_variable(program, after=other), r"variable 'v0' must end as int8 \(1, 1, 1, 8\)")
    refused(with_variable(program, before="x"), "'v0' must have tensors of the program, not 'x'")


def test_first_values(program):
    end = len(program.host_data)
    refused(with_variable(program, initial=4), "must begin at a multiple of 16, not 4")
    refused(with_variable(program, initial=end // 16 * 16), f"must begin within {end} bytes")


def test_places(program):
    first, second = (variable.place for variable in program.variables[:2])
    refused(
        with_variable(program, place=replace(first, region=Region.INPUT)),
        "variable 'v0' must lie in region ARENA as",
    )
    refused(
        with_variable(program, place=replace(first, offset=8)), "at a multiple of 64 and end by"
    )
    refused(with_variable(program, place=replace(first, offset=2**20)), "and end by")
    refused(
        with_variable(program, place=replace(first, offset=second.offset)),
        "variables must not overlap, unlike variable 'v0' and variable 'v1'",
    )
    refused(with_variable(program, place=None), "must bind variables alone in ARENA, not")


def test_bindings(program):
    (step,) = program.steps
    (at,) = (n for n, each in enumerate(step.inputs) if each.name == program.variables[0].before)

    def bound(side, **values):
        items = list(getattr(step, side))
        items[at] = replace(items[at], **values)
        return replace(program, steps=(replace(step, **{side: tuple(items)}),))

    refused(bound("inputs", offset=2**12), r"step 0 \(engine\) must bind .* at ARENA 0, not ARENA")
    without = tuple(each for each in step.outputs if each.name != program.variables[0].after)
    refused(
        replace(program, steps=(replace(step, outputs=without),)),
        "variable 'v0' must be made by the engine",
    )
    refused(replace(program, steps=(step, step)), r"step 1 .* must read 't1' before it is replaced")
    after = next(info for info in program.tensors if info.name == program.variables[0].after)
    refused(
        replace(program, outputs=(after,)), "variable 'v0' must be kept by the host, which uses"
    )
