// PLLs for simulation: the clock as it comes, and a lock after some cycles; registers and buffers
// of pins, whose clocks fall together.

module EHXPLLL #(
  parameter CLKI_DIV = 1, CLKFB_DIV = 1, CLKOP_DIV = 1, CLKOP_CPHASE = 0, CLKOP_FPHASE = 0,
  parameter CLKOP_ENABLE = "", FEEDBK_PATH = "", OUTDIVIDER_MUXA = "",
  parameter CLKOS_DIV = 1, CLKOS_CPHASE = 0, CLKOS_FPHASE = 0, CLKOS_ENABLE = "",
  parameter OUTDIVIDER_MUXB = "", OUTDIVIDER_MUXC = "",
  parameter CLKOS2_DIV = 1, CLKOS2_CPHASE = 0, CLKOS2_FPHASE = 0, CLKOS2_ENABLE = ""
) (
  input CLKI, CLKFB, RST, STDBY, PLLWAKESYNC, ENCLKOP,
  input PHASESEL0, PHASESEL1, PHASEDIR, PHASESTEP, PHASELOADREG,
  output CLKOP, CLKOS, CLKOS2, LOCK
);
  reg [6:0] waited = 0;
  assign LOCK = waited[6];
  always @(posedge CLKOP) if (!LOCK) waited <= waited + 1;
  assign CLKOP = CLKI;
  assign CLKOS = CLKI;
  assign CLKOS2 = CLKI;
endmodule

module rPLL #(
  parameter DEVICE = "", FCLKIN = "", IDIV_SEL = 0, FBDIV_SEL = 0, ODIV_SEL = 8, DYN_SDIV_SEL = 2,
  parameter DYN_IDIV_SEL = "", DYN_FBDIV_SEL = "", DYN_ODIV_SEL = "", CLKFB_SEL = "",
  parameter CLKOUT_BYPASS = "", CLKOUTP_BYPASS = "", CLKOUTD_BYPASS = "",
  parameter PSDA_SEL = "", DUTYDA_SEL = "", DYN_DA_EN = ""
) (
  input CLKIN, CLKFB, RESET, RESET_P,
  input [5:0] IDSEL, FBDSEL, ODSEL,
  input [3:0] PSDA, DUTYDA, FDLY,
  output CLKOUT, CLKOUTP, LOCK
);
  reg [6:0] waited = 0;
  assign CLKOUT = CLKIN;
  assign CLKOUTP = CLKIN;
  assign LOCK = waited[6];
  always @(posedge CLKIN) if (!LOCK) waited <= waited + 1;
endmodule

module PLLE2_BASE #(
  parameter BANDWIDTH = "", STARTUP_WAIT = "", real CLKIN1_PERIOD = 10.0,
  parameter DIVCLK_DIVIDE = 1, CLKFBOUT_MULT = 1, CLKOUT0_DIVIDE = 1
) (
  input CLKIN1, CLKFBIN, RST, PWRDWN,
  output CLKFBOUT, CLKOUT0, LOCKED
);
  reg [6:0] waited = 0;
  assign CLKFBOUT = CLKIN1;
  assign CLKOUT0 = CLKIN1;
  assign LOCKED = waited[6];
  always @(posedge CLKIN1) if (!LOCKED) waited <= waited + 1;
endmodule

module OFS1P3DX (input D, SP, SCLK, CD, output reg Q);
  always @(posedge SCLK) Q <= CD ? 0 : SP ? D : Q;
endmodule

module OFS1P3BX (input D, SP, SCLK, PD, output reg Q);
  always @(posedge SCLK) Q <= PD ? 1 : SP ? D : Q;
endmodule

module IFS1P3DX (input D, SP, SCLK, CD, output reg Q);
  always @(posedge SCLK) Q <= CD ? 0 : SP ? D : Q;
endmodule

// Two words a cycle, in the third cycle after they were given: one while the clock is high, the
// other while it is low.
module ODDRX1F (input SCLK, RST, D0, D1, output Q);
  reg [1:0] given = 0, passed = 0, shown = 0;
  always @(posedge SCLK) begin
    given <= RST ? 2'b0 : {D1, D0};
    passed <= RST ? 2'b0 : given;
    shown <= RST ? 2'b0 : passed;
  end
  assign Q = SCLK ? shown[0] : shown[1];
endmodule

// What came at a falling edge, Q0, with what came at the rising edge after it, Q1: both in the
// cycle after the next rising edge.
module IDDRX1F (input D, SCLK, RST, output reg Q0, Q1);
  reg falling = 0, fallen = 0, rising = 0;
  always @(negedge SCLK) begin
    falling <= D;
    fallen <= falling;
  end
  always @(posedge SCLK) begin
    rising <= D;
    Q0 <= RST ? 1'b0 : fallen;
    Q1 <= RST ? 1'b0 : rising;
  end
endmodule

module OB (input I, output O);
  assign O = I;
endmodule

module BB (input I, T, output O, inout B);
  assign B = T ? 1'bz : I;
  assign O = B;
endmodule

module ODDR #(parameter TXCLK_POL = 0) (input CLK, D0, D1, TX, output Q0, Q1);
  assign Q0 = CLK ? D0 : D1;
  assign Q1 = TX;
endmodule

module OBUF (input I, output O);
  assign O = I;
endmodule

module IOBUF (input I, OEN, output O, inout IO);
  assign IO = OEN ? 1'bz : I;
  assign O = IO;
endmodule
