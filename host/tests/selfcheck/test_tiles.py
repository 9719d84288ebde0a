"""Single tiles of a program that is too large to run as a whole."""

import dataclasses

import numpy as np
import pytest

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_unchecked
from matloom.data.digits import NETWORK
from matloom.device.model import engine
from matloom.program import Program
from matloom.program.instruction_table import InstructionTable
from matloom.program.verdict import describe_verdict
from matloom.selfcheck import CheckError, check
from matloom.selfcheck.tile_commands import checkable_posts, sum_instructions
from support.mobilenet import mobilenet


@pytest.fixture(scope="module", params=["nano", "reference"])
def candidate(request):
    return compile_unchecked(frontend.load(NETWORK), PRESETS[request.param], CompileOptions())


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(check, "_LARGEST", 0)


def test_a_large_network_is_sampled_tile_by_tile(candidate):
    verdict = candidate.check("sample")
    assert verdict.calls == 0
    assert verdict.tiles >= 4
    assert 0 < verdict.share < 1
    assert verdict.stages[0] == verdict.stages[1]
    assert f"{verdict.tiles} single tiles" in describe_verdict(verdict)
    assert candidate.check("full").tiles == 0


def test_other_seeds_draw_other_tiles():
    """At `reference`, the network has so few tiles that all are drawn."""
    candidate = compile_unchecked(frontend.load(NETWORK), PRESETS["nano"], CompileOptions())
    shares = {candidate.check("sample", seed).share for seed in range(4)}
    assert len(shares) > 1


@pytest.mark.parametrize("unit", ["execute", "post"])
def test_an_engine_that_computes_something_else_is_found(candidate, unit, monkeypatch):
    """The proof of the commands cannot notice it, since it has its own engine."""
    right = getattr(engine, unit)

    def wrong(instruction, spad, accumulators, *rest):
        right(instruction, spad, accumulators, *rest)
        if unit == "execute":
            accumulators += 1 << 12
        else:
            start = instruction.values["dest_addr"]
            spad[start] ^= 1

    monkeypatch.setattr(engine, unit, wrong)
    with pytest.raises(CheckError, match="bytes of a tile are wrong"):
        candidate.check("sample")


def test_tiles_of_most_layers_can_be_run():
    """Every command buffer of a MobileNet contributes layers of all kinds."""
    made = compile_unchecked(mobilenet(10, 32), PRESETS["nano"], CompileOptions())
    assert made.check("sample").tiles >= 6


def test_a_tile_has_all_instructions_that_make_its_sums(candidate):
    program = candidate.program
    instructions = InstructionTable.unpack(program.commands(program.steps[0]))
    posts = checkable_posts(instructions)
    found = [sum_instructions(instructions, at, program.config.columns) for at in posts]
    assert all(each is not None and each[-1] == at for each, at in zip(found, posts, strict=True))
    sums = [each for each in found if len(each) > 1]
    starts = [instructions[each[0]] for each in sums]
    assert all(not start.values.get("accumulate", 0) for start in starts)
    # A POST of sums whose EXECs are not there has no chain.
    first = next(at for at, each in zip(posts, found, strict=True) if len(each) > 1)
    assert sum_instructions([instructions[first]], 0, program.config.columns) is None


def test_the_verdict_is_kept_with_the_program(candidate, tmp_path):
    program = dataclasses.replace(candidate.program, verdict=candidate.check("sample"))
    path = tmp_path / "sampled.mloom"
    program.save(path)
    assert Program.load(path).verdict == program.verdict
    assert np.isclose(Program.load(path).verdict.share, program.verdict.share)
