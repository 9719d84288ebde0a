// PLLs for simulation: the clock as it comes, and a lock after some cycles; registers and buffers
// of pins, whose clocks fall together. With MATLOOM_OSCILLATOR a PLL takes its input for that of its
// oscillator, and divides it.

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
`ifdef MATLOOM_OSCILLATOR
  Divider #(CLKOP_DIV) first (CLKI, CLKOP);
  Divider #(CLKOS_DIV) second (CLKI, CLKOS);
  assign CLKOS2 = CLKOS;
`else
  assign CLKOP = CLKI;
  assign CLKOS = CLKI;
  assign CLKOS2 = CLKI;
`endif
endmodule

module Divider #(parameter CYCLES = 1) (input in, output reg out = 0);
  reg [6:0] count = 0;
  always @(posedge in) begin
    count <= count == CYCLES - 1 ? 0 : count + 1;
    out <= count < CYCLES / 2;
  end
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

// Of a clock alone: what it shows while the clock is high, and while it is low.
module ODDRX1F (input SCLK, RST, D0, D1, output Q);
  assign Q = SCLK ? D0 : D1;
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
