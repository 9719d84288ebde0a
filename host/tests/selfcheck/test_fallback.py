"""A program that fails its check: a warning, a reproducer, and a simpler program that is right."""

import dataclasses
import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from matloom.compiler import CheckError, CompilerWarning, compile_network, values
from matloom.kernels.definition import Definition
from matloom.kernels.interpreter import interpret
from matloom.program import Verdict
from matloom.runtime import load
from matloom.select.rewrites import elide_copies, fuse_tables
from matloom.selfcheck import machine
from matloom.tools.compare import random_inputs

#: The package has a function of this name.
emit = importlib.import_module("matloom.schedule.commands.emit")


@pytest.fixture(autouse=True)
def _reproducers(tmp_path, monkeypatch):
    monkeypatch.setenv("MATLOOM_CACHE", str(tmp_path))


def compile_with_warning(graph, config, **options):
    """Return the program after a warning; check that its reproducer exists."""
    with pytest.warns(CompilerWarning, match="a simpler program passes") as caught:
        program = compile_network(graph, config, check="sample", **options)
    folder = Path(re.search(r"to repeat it: (\S+);", str(caught[0].message)).group(1))
    failure = json.loads((folder / "failure.json").read_text())
    assert failure["error"] in str(caught[0].message)
    assert failure["error"] in program.verdict.fallback
    return program


def require_right(program, graph):
    given = random_inputs(graph, 1)
    session = load(program, device="model")
    named = {graph.tensors[number].name: array for number, array in given.items()}
    for number, array in interpret(graph, given).items():
        for _call in range(2):
            assert np.array_equal(session.run(named)[graph.tensors[number].name], array)


def test_a_wrong_table(monkeypatch, branches, config):
    """The producer of a tensor uses the wrong table; a plain schedule does not fuse it."""
    right = fuse_tables._with_table

    def wrong(producer, stage):
        made = right(producer, stage)
        return dataclasses.replace(made, table=np.roll(made.table, 1))

    monkeypatch.setattr(fuse_tables, "_with_table", wrong)
    program = compile_with_warning(branches, config)
    assert all(layer.where == "engine" for layer in program.layers)
    require_right(program, branches)


def test_a_wrong_place_in_a_concatenation(monkeypatch, branches, config):
    right = elide_copies._with_destination

    def wrong(producer, copy):
        made = right(producer, copy)
        if made is None:
            return None
        layout = made.output_layout
        return dataclasses.replace(
            made, output_layout=dataclasses.replace(layout, offset=layout.offset ^ 1)
        )

    monkeypatch.setattr(elide_copies, "_with_destination", wrong)
    program = compile_with_warning(branches, config)
    assert all(layer.where == "engine" for layer in program.layers)
    require_right(program, branches)


def test_operators_that_every_schedule_breaks_run_on_the_host(monkeypatch, branches, config):
    right = emit.exec_fields

    def wrong(stage, tile, config):
        fields = right(stage, tile, config)
        return {**fields, "first_byte": fields["first_byte"] + (stage.output == "left")}

    monkeypatch.setattr(emit, "exec_fields", wrong)
    monkeypatch.setattr(elide_copies, "_with_destination", lambda producer, copy: None)
    program = compile_with_warning(branches, config)
    where = {layer.name: layer.where for layer in program.layers}
    assert where["left"] == "host"
    assert "engine" in where.values()
    reasons = {layer.reason for layer in program.layers if layer.where == "host"}
    assert "its program fails the check" in reasons
    require_right(program, branches)


def test_no_program_if_even_the_host_fails(monkeypatch, branches, config):
    """If even the host gives wrong results, no program is returned."""
    right = Definition.value

    def wrong(self, number):
        array = right(self, number)
        return array if number in self.graph.inputs else array + np.int8(1)

    monkeypatch.setattr(Definition, "value", wrong)
    with pytest.raises(CheckError, match="so does a program of the host alone"):
        compile_network(branches, config, check="full")


def test_no_message_without_a_check(monkeypatch, branches, config):
    def forbidden(*_arguments, **_options):
        raise AssertionError

    monkeypatch.setattr(machine, "Engine", forbidden)
    program = compile_network(branches, config, check="none")
    assert program.verdict.mode == "none"


def test_faults_that_only_the_proof_of_meaning_finds(monkeypatch, branches, config):
    """Runs on data would miss a wrong position; the proof finds it."""

    def blind(program, graph, names, *, mode, seed):
        return Verdict(mode=mode, seed=seed, share=1.0)

    right = elide_copies._with_destination

    def wrong(producer, copy):
        made = right(producer, copy)
        if made is None:
            return None
        layout = made.output_layout
        return dataclasses.replace(
            made, output_layout=dataclasses.replace(layout, offset=layout.offset ^ 1)
        )

    monkeypatch.setattr(values, "check_program", blind)
    monkeypatch.setattr(elide_copies, "_with_destination", wrong)
    program = compile_with_warning(branches, config)
    assert "of output 'y' holds" in program.verdict.fallback
    assert program.verdict.stages == (4, 4)
    require_right(program, branches)
