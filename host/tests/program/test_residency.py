"""Repeated calls with resident weights: the compiler's pass, and the check for stale reads."""

import itertools
from dataclasses import replace

import pytest

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Region
from matloom.compiler import CompileError, CompileOptions, compile_network
from matloom.data.digits import NETWORK
from matloom.data.matrix_products import product_graph
from matloom.program import EngineStep, Program, Repeat
from matloom.program.residency import repeat_problem
from matloom.program.verify import VerifyError, verify_program
from matloom.tools.explain import explain

CONFIG = PRESETS["nano"]
KEPT = Repeat(command_offset=0, command_bytes=0, predicted_cycles=0, kept=((0, 64), (128, 192)))


def load(address, size=64, region=Region.PROGRAM):
    values = {"region": region, "spad_addr": address, "row_bytes": size, "rows": 1, "planes": 1}
    return Instruction(Opcode.LOAD, values)


def scale(params):
    """Return a POST with a bias of 4 bytes for each of 4 columns."""
    one = dict.fromkeys(("width", "height", "oc_blocks", "tail", "channel_bias"), 1)
    return Instruction(Opcode.POST, {**one, "param_addr": params, "dest_addr": 1024})


def fill(table):
    """Return a POST that fills the table with 256 bytes from an address."""
    values = {"source": 1, "width": 64, "height": 1, "oc_blocks": 1, "tail": 4, "x_step": 4}
    return Instruction(Opcode.POST, {**values, "table": 2, "source_addr": table})


LOADED = "must be loaded from region PROGRAM, and not be written after that"

FIRST = [load(0), load(64, region=Region.INPUT), load(128)]


@pytest.mark.parametrize(
    ("first", "again", "sentence"),
    [
        (FIRST, [scale(0), scale(176)], None),
        (FIRST, [load(64, region=Region.INPUT), scale(120)], None),
        (FIRST, [load(256, 256), fill(256)], None),
        (
            FIRST,
            [fill(0)],
            (
                "instruction 0 (POST) of a repetition must find constants kept or loaded, not read "
                "SPAD addresses 0 to 255"
            ),
        ),
        ([load(0)], [], f"kept byte 128 {LOADED}"),
        ([load(0, 192)], [], None),
        ([load(0, region=Region.INPUT)], [], f"kept byte 0 {LOADED}"),
        ([*FIRST, load(191, region=Region.INPUT)], [], f"kept byte 191 {LOADED}"),
        # What was there before does not matter.
        ([load(0, region=Region.INPUT), scale(0), *FIRST], [scale(0)], None),
        (
            FIRST,
            [scale(60)],
            (
                "instruction 0 (POST) of a repetition must find constants kept or loaded, not "
                "read SPAD addresses 60 to 75"
            ),
        ),
        (
            FIRST,
            [load(64, 65)],
            (
                "instruction 0 (LOAD) of a repetition must not write kept bytes, but writes SPAD "
                "addresses 64 to 128"
            ),
        ),
    ],
)
def test_bytes_that_a_repetition_relies_on(first, again, sentence):
    assert repeat_problem(first, again, KEPT, CONFIG) == sentence


def test_kept_bytes_are_on_chip():
    beyond = replace(KEPT, kept=((0, CONFIG.spad_bytes + 1),))
    sentence = f"kept bytes must lie in 0 .. {CONFIG.spad_bytes}, not 0 .. {CONFIG.spad_bytes + 1}"
    assert repeat_problem([], [], beyond, CONFIG) == sentence


def test_a_program_is_verified_with_its_repetition():
    program = compile_network(frontend.load(NETWORK), CONFIG, CompileOptions(resident=True))
    verify_program(program)
    (step,) = (item for item in program.steps if isinstance(item, EngineStep))

    def changed(**values):
        repeat = replace(step.repeat, **values)
        steps = [replace(item, repeat=repeat) if item is step else item for item in program.steps]
        return replace(program, steps=tuple(steps))

    with pytest.raises(VerifyError, match="must find constants kept or loaded"):
        verify_program(changed(kept=step.repeat.kept[:-1]))
    with pytest.raises(VerifyError, match="command_offset must be a multiple of 16, not"):
        verify_program(changed(command_offset=step.repeat.command_offset + 8))
    twice = replace(program, steps=(step, *program.steps))
    with pytest.raises(VerifyError, match="a repeat must be the only engine step of 2"):
        verify_program(twice)


def test_weights_loaded_in_parts_are_kept_once():
    """A product loads the parts of its weights separately into one buffer."""
    options = CompileOptions(resident=True)
    program = compile_network(product_graph(40, 96, 48), PRESETS["small"], options)
    kept = program.repeat.kept
    assert all(before < after for (_, before), (after, _) in itertools.pairwise(kept))
    assert Program.from_bytes(program.to_bytes()).repeat == program.repeat


def test_the_choice():
    """By default if it gains; on demand if it fits; never if switched off."""
    graph = product_graph(1, 64, 64)
    assert compile_network(graph, CONFIG).repeat is not None
    assert compile_network(graph, CONFIG, CompileOptions(resident=False)).repeat is None
    large = product_graph(4, 256, 256)
    assert compile_network(large, CONFIG).repeat is None
    with pytest.raises(CompileError, match="all of them must fit the 32768 bytes of scratchpad"):
        compile_network(large, CONFIG, CompileOptions(resident=True))


def test_explain_says_both_figures():
    program = compile_network(product_graph(1, 64, 64), CONFIG)
    lines = [line for line in explain(program) if isinstance(line, str)]
    assert any(
        line.startswith(f"{program.predicted_cycles:,} cycles (predicted)") for line in lines
    )
    again = f"{program.repeat.predicted_cycles:,} cycles (predicted) from a session's second call"
    assert any(line.startswith(again) for line in lines)
