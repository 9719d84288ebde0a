"""The check of a program against its graph: right ones pass, wrong ones are reported."""

import dataclasses
import importlib
import sys

import numpy as np
import pytest

from matloom import frontend
from matloom.arch.config import load_config
from matloom.compiler import CheckError, CompileOptions, compile_network, compile_unchecked
from matloom.data.digits import NETWORK
from matloom.ir.graph import Op
from matloom.program import Program, Verdict
from matloom.selfcheck import check, check_mode
from matloom.verification.random_operators import RandomOperators

#: The package has a function of this name.
emit = importlib.import_module("matloom.schedule.commands.emit")


def digits():
    options = CompileOptions(resident=True)
    return compile_unchecked(frontend.load(NETWORK), load_config("reference"), options)


def test_a_right_program_passes():
    whole = Verdict(mode="full", seed=0, share=1.0, calls=4, stages=(7, 7))
    assert digits().check() == whole
    assert digits().check("sample", seed=3) == dataclasses.replace(whole, mode="sample", seed=3)
    assert digits().check("none") == Verdict(mode="none")


@pytest.mark.parametrize("seed", range(8))
def test_one_wrong_bit_of_a_weight_is_found(seed):
    made = digits()
    image = bytearray(made.program.image)
    # The image begins with the first layer's weights; what is not zero there is no filling.
    weights = np.flatnonzero(np.frombuffer(image[:128], np.uint8))
    image[int(np.random.default_rng(seed).choice(weights))] ^= 0x40
    wrong = dataclasses.replace(made.program, image=bytes(image))
    with pytest.raises(CheckError, match=r"element \(.*expected -?\d+, got -?\d+; .* are wrong"):
        dataclasses.replace(made, program=wrong).check()


def test_the_first_wrong_tensor_is_named(monkeypatch, branches, config):
    right = emit.exec_fields

    def wrong(stage, tile, config):
        fields = right(stage, tile, config)
        return {**fields, "first_byte": fields["first_byte"] + (tile.first_row > 0)}

    monkeypatch.setattr(emit, "exec_fields", wrong)
    made = compile_unchecked(branches, config, CompileOptions())
    with pytest.raises(CheckError, match=r"tensor 'y', element \(0, \d+, ") as caught:
        made.check()
    assert caught.value.tensor == "y"


def test_only_repeated_calls_are_wrong():
    """Repeated calls have separate commands, which are checked, too."""
    made = digits()
    repeat = made.program.repeat
    assert repeat is not None
    image = bytearray(made.program.image)
    # END alone does nothing.
    end = made.program.commands(repeat)[-16:]
    image[repeat.command_offset : repeat.command_offset + 16] = end
    wrong = dataclasses.replace(made.program, image=bytes(image))
    with pytest.raises(CheckError, match="a repeated call"):
        dataclasses.replace(made, program=wrong).check()


def test_commands_that_stop_the_engine_are_named():
    made = digits()
    image = bytearray(made.program.image)
    image[made.program.steps[0].command_offset] |= 15
    wrong = dataclasses.replace(made.program, image=bytes(image))
    with pytest.raises(CheckError, match=r"the engine stops: ILLEGAL_OPCODE .*the first call"):
        dataclasses.replace(made, program=wrong).check()


@pytest.mark.parametrize("mode", ["bf16", "fp16"])
@pytest.mark.parametrize("op", [Op.CONV_2D, Op.FULLY_CONNECTED])
def test_floating_point_layers_are_exact(mode, op):
    config = load_config(f"nano+float_rows=2+weight_rows=2+{mode}")
    engine = 0
    for number in range(4):
        graph = RandomOperators(number, "float32").make(op)
        made = compile_unchecked(graph, config, CompileOptions(), mode)
        made.check()
        engine += any(layer.mode == mode for layer in made.program.layers)
    assert engine >= 2


def test_a_large_network_is_sampled_by_command_buffers(monkeypatch, branches, config):
    """Only one of two command buffers is small enough to run."""
    monkeypatch.setattr(check, "_LARGEST", 1700)
    made = compile_unchecked(branches, dataclasses.replace(config, tables=0), CompileOptions())
    assert [step.kind for step in made.program.steps] == ["engine", "host", "engine"]
    verdict = check.check_program(made.program, made.graph, made.numbers, mode="sample")
    # The convolutions have 6 * 5 * 8 * 16, more than that; the concatenation has none.
    assert (verdict.share, verdict.calls) == (0, 2)
    monkeypatch.setattr(check, "_LARGEST", 3839)
    opened = check.check_program(made.program, made.graph, made.numbers, mode="sample")
    assert opened == verdict
    monkeypatch.setattr(check, "_LARGEST", 3840)
    assert check.check_program(made.program, made.graph, made.numbers, mode="sample").share == 1
    # What a sample runs is compared.
    monkeypatch.setattr(check, "_LARGEST", 0)
    last = made.program.steps[-1]
    image = bytearray(made.program.image)
    image[last.command_offset : last.command_offset + 16] = made.program.commands(last)[-16:]
    wrong = dataclasses.replace(made.program, image=bytes(image))
    with pytest.raises(CheckError, match=r"the first call of one command buffer"):
        check.check_program(wrong, made.graph, made.numbers, mode="sample")


def test_four_bits_are_compared_with_the_lowered_graph():
    graph = RandomOperators(4).make(Op.CONV_2D)
    made = compile_unchecked(graph, load_config("small+i8xi4"), CompileOptions(), "i8xi4")
    assert made.check().share == 1.0
    assert [layer.mode for layer in made.program.layers] == ["i8xi4"]
    # The numbers differ from those of the given graph.
    with pytest.raises(CheckError, match="elements are wrong"):
        dataclasses.replace(made, graph=graph).check()


def test_opaque_operators_are_part_of_it(opaque):
    graph = frontend.load(opaque)
    assert any(node.op is Op.REFERENCE for node in graph.nodes)
    made = compile_unchecked(graph, load_config("small"), CompileOptions())
    assert made.check().calls == 4
    # Its own kernel here says something else.
    other = dataclasses.replace(made, graph=frontend.load(NETWORK))
    with pytest.raises(CheckError, match=r"operator 3 \(ADD\)"):
        other.check()


def test_without_an_interpreter_opaque_outputs_are_drawn(opaque, monkeypatch):
    monkeypatch.setitem(sys.modules, "tflite_micro.python.tflite_micro", None)
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    made = compile_unchecked(frontend.load(opaque), load_config("small"), CompileOptions())
    assert made.check().calls == 4
    step = made.program.steps[0]
    image = bytearray(made.program.image)
    image[step.command_offset] |= 15
    wrong = dataclasses.replace(made.program, image=bytes(image))
    with pytest.raises(CheckError, match="the engine stops"):
        dataclasses.replace(made, program=wrong).check()


def test_verdict_is_stored(branches, config):
    program = compile_network(branches, config, check="full")
    assert program.verdict == Verdict(mode="full", share=1.0, calls=4, stages=(4, 4))
    assert Program.from_bytes(program.to_bytes()).verdict == program.verdict


def test_mode(monkeypatch):
    monkeypatch.delenv("MATLOOM_CHECK")
    assert check_mode(None) == "sample"
    monkeypatch.setenv("MATLOOM_CHECK", "full")
    assert (check_mode(None), check_mode("none")) == ("full", "none")
    with pytest.raises(ValueError, match="check must be one of full, sample, none, not 'some'"):
        check_mode("some")
