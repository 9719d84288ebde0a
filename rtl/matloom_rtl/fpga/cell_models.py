"""Simulation models of ECP5 blocks that are black boxes in Yosys' library, and of its tables."""

from matloom_rtl.fpga.pll_model import PLL

__all__ = ["ECP5_BLOCKS"]

#: Size of an ECP5's block memory: parameters INITVAL have rows of 16 words of 18 bits.
_ROWS, _WORDS, _WORD = 64, 16, 18


def _scalar_ports(name: str, count: int) -> str:
    """Return a list of scalar ports, `name` with indices below `count`, the highest bit first."""
    return ", ".join(f"{name}{bit}" for bit in reversed(range(count)))


#: From the family's data sheet (FPGA-DS-02012) and sysDSP usage guide (FPGA-TN-02205): a signed or
#: unsigned 18 x 18 bit product, with registers before, within and after it if their clock is named.
#: The shift chains (SRIA, SRIB) are not modelled.
_MULTIPLIER = f"""\
module MULT18X18D #(
  parameter REG_INPUTA_CLK = "NONE", REG_INPUTA_CE = "CE0", REG_INPUTA_RST = "RST0",
  parameter REG_INPUTB_CLK = "NONE", REG_INPUTB_CE = "CE0", REG_INPUTB_RST = "RST0",
  parameter REG_INPUTC_CLK = "NONE",
  parameter REG_PIPELINE_CLK = "NONE", REG_PIPELINE_CE = "CE0", REG_PIPELINE_RST = "RST0",
  parameter REG_OUTPUT_CLK = "NONE", REG_OUTPUT_CE = "CE0", REG_OUTPUT_RST = "RST0",
  parameter CLK0_DIV = "ENABLED", GSR = "ENABLED", RESETMODE = "SYNC"
) (
  input {_scalar_ports("A", 18)},
  input {_scalar_ports("B", 18)},
  input {_scalar_ports("C", 18)},
  input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK0, CE0, RST0,
  output {_scalar_ports("P", 36)}
);
  // Each pair: the operand and whether it has a sign, as they enter the product.
  wire [18:0] a, b;
  wire signed [18:0] left = a, right = b;
  wire signed [37:0] product = left * right;
  wire [35:0] middle, result;
  matloom_stage #(19, REG_INPUTA_CLK, REG_INPUTA_CE, REG_INPUTA_RST) stage_a (
    CLK0, CE0, RST0, {{SIGNEDA & A17, {_scalar_ports("A", 18)}}}, a);
  matloom_stage #(19, REG_INPUTB_CLK, REG_INPUTB_CE, REG_INPUTB_RST) stage_b (
    CLK0, CE0, RST0, {{SIGNEDB & B17, {_scalar_ports("B", 18)}}}, b);
  matloom_stage #(36, REG_PIPELINE_CLK, REG_PIPELINE_CE, REG_PIPELINE_RST) stage_middle (
    CLK0, CE0, RST0, product[35:0], middle);
  matloom_stage #(36, REG_OUTPUT_CLK, REG_OUTPUT_CE, REG_OUTPUT_RST) stage_result (
    CLK0, CE0, RST0, middle, result);
  assign {{{_scalar_ports("P", 36)}}} = result;
  // What nothing here generates is refused rather than guessed.
  if (RESETMODE != "SYNC" || REG_INPUTC_CLK != "NONE" || CLK0_DIV != "ENABLED")
    $error("MULT18X18D: no such mode in this model");
`ifndef YOSYS
  always @(*) if (SOURCEA || SOURCEB) $fatal(1, "MULT18X18D: a shift chain is not modelled");
`endif
endmodule

module matloom_stage #(
  parameter BITS = 1, CLK = "NONE", CE = "CE0", RST = "RST0"
) (input clk, ce, rst, input [BITS-1:0] d, output [BITS-1:0] q);
  if (CLK == "NONE") assign q = d;
  else begin : register
    reg [BITS-1:0] held = 0;
    always @(posedge clk) if (rst) held <= 0; else if (ce) held <= d;
    assign q = held;
    if (CLK != "CLK0" || CE != "CE0" || RST != "RST0")
      $error("MULT18X18D: registers by another clock, enable or reset");
  end
endmodule
"""

_INITIAL_NAMES = [f"INITVAL_{row:02X}" for row in range(_ROWS)]

#: From the memory usage guide (FPGA-TN-02204): 18,432 bits with two ports, each 1 to 18 bits wide;
#: or 36 bits wide, with port A writing and port B reading, and the lower halves of words at the
#: outputs of A. Words of 1 to 4 bits skip every ninth bit. A port's outputs change with its own
#: clock if it is enabled; during a write they keep their value (NORMAL), show the old word
#: (READBEFOREWRITE) or the new one (WRITETHROUGH). Reading a word while the other port writes it is
#: undefined: the model returns the complement of the old contents, so that no design can rely on
#: it.
_MEMORY = f"""\
module DP16KD #(
  parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18, REGMODE_A = "NOREG", REGMODE_B = "NOREG",
  parameter RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC", GSR = "ENABLED",
  parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", CLKAMUX = "CLKA", CLKBMUX = "CLKB",
  parameter WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL",
  parameter [319:0] {", ".join(f"{name} = 0" for name in _INITIAL_NAMES)}
) (
  input {_scalar_ports("DIA", 18)},
  input {_scalar_ports("ADA", 14)},
  input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
  input {_scalar_ports("DIB", 18)},
  input {_scalar_ports("ADB", 14)},
  input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
  output {_scalar_ports("DOA", 18)},
  output {_scalar_ports("DOB", 18)}
);
  localparam [{_ROWS * 320 - 1}:0] INITIAL = {{{", ".join(reversed(_INITIAL_NAMES))}}};
  reg [17:0] words [0:1023];
  integer n;
  initial for (n = 0; n < 1024; n = n + 1) words[n] = INITIAL[20 * n +: 18];

  wire [13:0] at_a = {{{_scalar_ports("ADA", 14)}}}, at_b = {{{_scalar_ports("ADB", 14)}}};
  wire [17:0] in_a = {{{_scalar_ports("DIA", 18)}}}, in_b = {{{_scalar_ports("DIB", 18)}}};
  wire on_a = CEA && {{CSA2, CSA1, CSA0}} == 0, on_b = CEB && {{CSB2, CSB1, CSB0}} == 0;
  reg [17:0] out_a = 0, out_b = 0;
  reg [17:0] late_a = 0, late_b = 0;
  assign {{{_scalar_ports("DOA", 18)}}} = REGMODE_A == "OUTREG" ? late_a : out_a;
  assign {{{_scalar_ports("DOB", 18)}}} = REGMODE_B == "OUTREG" ? late_b : out_b;
  always @(posedge CLKA) if (OCEA) late_a <= out_a;
  always @(posedge CLKB) if (OCEB) late_b <= out_b;

  // Which bits of a word a port of so many bits writes, and its data at their places.
  function [17:0] mask(input integer width, input [13:0] at);
    case (width)
      18: mask = {{{{9{{at[1]}}}}, {{9{{at[0]}}}}}};
      9: mask = 18'h1ff << 9 * at[3];
      4: mask = 18'h00f << 9 * at[3] + 4 * at[2];
      2: mask = 18'h003 << 9 * at[3] + 2 * at[2:1];
      default: mask = 18'h001 << 9 * at[3] + at[2:0];
    endcase
  endfunction
  function [17:0] lowest(input integer width, input [13:0] at, input [17:0] word);
    case (width)
      18: lowest = word;
      9: lowest = word >> 9 * at[3] & 18'h1ff;
      4: lowest = word >> 9 * at[3] + 4 * at[2] & 18'h00f;
      2: lowest = word >> 9 * at[3] + 2 * at[2:1] & 18'h003;
      default: lowest = word >> 9 * at[3] + at[2:0] & 18'h001;
    endcase
  endfunction
  function [17:0] placed(input integer width, input [13:0] at, input [17:0] in);
    case (width)
      18: placed = in;
      9: placed = in << 9 * at[3];
      4: placed = in << 9 * at[3] + 4 * at[2];
      2: placed = in << 9 * at[3] + 2 * at[2:1];
      default: placed = in << 9 * at[3] + at[2:0];
    endcase
  endfunction

  if (DATA_WIDTH_A == 36) begin : wide
    wire [8:0] write = at_a[13:5], read = at_b[13:5];
    wire [35:0] lanes = {{{{9{{at_a[3]}}}}, {{9{{at_a[2]}}}}, {{9{{at_a[1]}}}}, {{9{{at_a[0]}}}}}};
    wire [35:0] old = {{words[{{write, 1'b1}}], words[{{write, 1'b0}}]}};
    wire [35:0] new_word = old & ~lanes | {{in_b, in_a}} & lanes;
    wire writes = on_a && WEA;
    wire [35:0] unsure = writes && write == read ? lanes : 0;
    always @(posedge CLKA) begin
      if (writes) begin
        words[{{write, 1'b0}}] <= new_word[17:0];
        words[{{write, 1'b1}}] <= new_word[35:18];
      end
      if (RSTB) {{out_b, out_a}} <= 0;
      else if (on_b) {{out_b, out_a}} <= {{words[{{read, 1'b1}}], words[{{read, 1'b0}}]}} ^ unsure;
    end
  end else begin : narrow
    wire [9:0] word_a = at_a[13:4], word_b = at_b[13:4];
    wire writes_a = on_a && WEA && !RSTA, writes_b = on_b && WEB && !RSTB;
    wire [17:0] mask_a = writes_a ? mask(DATA_WIDTH_A, at_a) : 0;
    wire [17:0] mask_b = writes_b ? mask(DATA_WIDTH_B, at_b) : 0;
    wire [17:0] new_a = words[word_a] & ~mask_a | placed(DATA_WIDTH_A, at_a, in_a) & mask_a;
    wire [17:0] new_b = words[word_b] & ~mask_b | placed(DATA_WIDTH_B, at_b, in_b) & mask_b;
    wire same = word_a == word_b;
    wire [17:0] seen_a = (WRITEMODE_A == "WRITETHROUGH" ? new_a : words[word_a])
                         ^ (same ? mask_b : 0);
    wire [17:0] seen_b = (WRITEMODE_B == "WRITETHROUGH" ? new_b : words[word_b])
                         ^ (same ? mask_a : 0);
    always @(posedge CLKA) begin
      if (writes_a) words[word_a] <= new_a;
      if (writes_b) words[word_b] <= same && writes_a ? new_b & ~mask_a | new_a & mask_a : new_b;
      if (RSTA) out_a <= 0;
      else if (on_a && !(WEA && WRITEMODE_A == "NORMAL"))
        out_a <= lowest(DATA_WIDTH_A, at_a, seen_a);
      if (RSTB) out_b <= 0;
      else if (on_b && !(WEB && WRITEMODE_B == "NORMAL"))
        out_b <= lowest(DATA_WIDTH_B, at_b, seen_b);
    end
  end
  // What nothing here generates is refused rather than guessed.
  if ((REGMODE_A != "NOREG" && (REGMODE_A != "OUTREG" || DATA_WIDTH_A == 36))
      || (REGMODE_B != "NOREG" && (REGMODE_B != "OUTREG" || DATA_WIDTH_B == 36))
      || CLKAMUX != "CLKA" || CLKBMUX != "CLKB" || CSDECODE_A != "0b000" || CSDECODE_B != "0b000"
      || (DATA_WIDTH_A == 36) != (DATA_WIDTH_B == 36))
    $error("DP16KD: no such mode in this model");
`ifndef YOSYS
  always @(posedge CLKB) if (!CLKA) $fatal(1, "DP16KD: this model has one clock");
  always @(posedge CLKA) begin
    if ((RSTA || RSTB) && RESETMODE != "SYNC") $fatal(1, "DP16KD: no asynchronous reset");
    if (RSTA && REGMODE_A != "NOREG" || RSTB && REGMODE_B != "NOREG")
      $fatal(1, "DP16KD: no reset of output registers");
    if (DATA_WIDTH_A == 36 && (WEB || RSTA)) $fatal(1, "DP16KD: port A writes, port B reads");
  end
`endif
endmodule
"""

#: The library's own model has four steps of multiplexers: a chip built from it simulates nine times
#: slower and takes half as long again to compile. The two are proven equal.
_TABLE = """\
module LUT4 #(parameter [15:0] INIT = 0) (input A, B, C, D, output Z);
  wire [15:0] from_here = INIT >> {D, C, B, A};
  assign Z = from_here[0];
endmodule
"""

#: Verilog of each black box and of the table, by name of the cell, with the modules that it needs.
ECP5_BLOCKS = {"MULT18X18D": _MULTIPLIER, "DP16KD": _MEMORY, "EHXPLLL": PLL, "LUT4": _TABLE}
