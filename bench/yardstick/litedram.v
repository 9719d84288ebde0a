// litedram's generated core under the names of harness.cpp, and models of the ECP5's cells at its
// pins: each register is one at a pin, so all take one cycle.

module yardstick (
  input clk, rst,
  input ar_valid, aw_valid, w_valid, w_last,
  input [31:0] ar_addr, aw_addr,
  input [7:0] ar_len, aw_len,
  input [63:0] w_data,
  output ar_ready, aw_ready, w_ready, r_valid, r_last, b_valid,
  output [63:0] r_data,
  input csr_write,
  input [29:0] csr_address,
  input [31:0] csr_data,
  output csr_done, ready,
  output clk_en, cs, ras, cas, we,
  output [1:0] ba, dqm,
  output [12:0] a,
  inout [15:0] dq
);
  wire cs_n, ras_n, cas_n, we_n;
  assign {cs, ras, cas, we} = ~{cs_n, ras_n, cas_n, we_n};
  litedram_core core (
    .clk(clk), .rst(rst), .init_done(ready), .init_error(), .user_clk(), .user_rst(),
    .user_port_0_arvalid(ar_valid), .user_port_0_arready(ar_ready),
    .user_port_0_araddr(ar_addr[24:0]), .user_port_0_arlen(ar_len), .user_port_0_arid(1'b0),
    .user_port_0_arburst(2'd1), .user_port_0_arsize(4'd3),
    .user_port_0_rvalid(r_valid), .user_port_0_rready(1'b1), .user_port_0_rdata(r_data),
    .user_port_0_rlast(r_last), .user_port_0_rid(), .user_port_0_rresp(),
    .user_port_0_awvalid(aw_valid), .user_port_0_awready(aw_ready),
    .user_port_0_awaddr(aw_addr[24:0]), .user_port_0_awlen(aw_len), .user_port_0_awid(1'b0),
    .user_port_0_awburst(2'd1), .user_port_0_awsize(4'd3),
    .user_port_0_wvalid(w_valid), .user_port_0_wready(w_ready), .user_port_0_wdata(w_data),
    .user_port_0_wlast(w_last), .user_port_0_wstrb(8'hff),
    .user_port_0_bvalid(b_valid), .user_port_0_bready(1'b1), .user_port_0_bid(),
    .user_port_0_bresp(),
    .wb_ctrl_adr(csr_address), .wb_ctrl_dat_w(csr_data), .wb_ctrl_sel(4'hf),
    .wb_ctrl_cyc(csr_write), .wb_ctrl_stb(csr_write), .wb_ctrl_we(1'b1),
    .wb_ctrl_bte(2'd0), .wb_ctrl_cti(3'd0), .wb_ctrl_ack(csr_done), .wb_ctrl_dat_r(),
    .wb_ctrl_err(),
    .sdram_cke(clk_en), .sdram_cs_n(cs_n), .sdram_ras_n(ras_n), .sdram_cas_n(cas_n),
    .sdram_we_n(we_n), .sdram_ba(ba), .sdram_a(a), .sdram_dm(dqm), .sdram_dq(dq)
  );
endmodule

module OFS1P3BX (input D, PD, SCLK, SP, output reg Q);
  always @(posedge SCLK) if (PD) Q <= 1'b1; else if (SP) Q <= D;
endmodule

module IFS1P3BX (input D, PD, SCLK, SP, output reg Q);
  always @(posedge SCLK) if (PD) Q <= 1'b1; else if (SP) Q <= D;
endmodule

module FD1S3BX (input CK, D, PD, output reg Q);
  always @(posedge CK) Q <= PD ? 1'b1 : D;
endmodule

module TRELLIS_IO #(parameter DIR = "BIDIR") (input I, T, output O, inout B);
  assign B = T ? 1'bz : I;
  assign O = B;
endmodule
