// This project's SDRAM controller under the names of harness.cpp; fields as in `matloom_rtl.bus.axi`.

module yardstick (
  input clk, rst,
  input ar_valid, aw_valid, w_valid, w_last,
  input [31:0] ar_addr, aw_addr,
  input [7:0] ar_len, aw_len,
  input [63:0] w_data,
  output ar_ready, aw_ready, w_ready, r_valid, r_last, b_valid,
  output [63:0] r_data,
  // No software is needed.
  input csr_write,
  input [29:0] csr_address,
  input [31:0] csr_data,
  output csr_done, ready,
  output clk_en, cs, ras, cas, we,
  output [1:0] ba, dqm,
  output [12:0] a,
  inout [15:0] dq
);
  wire [67:0] r;
  wire [15:0] o;
  wire oe;
  // id, data, resp, last.
  assign r_data = r[64:1];
  assign r_last = r[67];
  assign csr_done = 1'b1;
  assign dq = oe ? o : 16'bz;
  controller controller (
    .clk(clk), .rst(rst),
    // id, addr, len.
    .axi_read__ar__valid(ar_valid), .axi_read__ar__ready(ar_ready),
    .axi_read__ar__payload({ar_len, ar_addr, 1'b0}),
    .axi_read__r__valid(r_valid), .axi_read__r__ready(1'b1), .axi_read__r__payload(r),
    .axi_write__aw__valid(aw_valid), .axi_write__aw__ready(aw_ready),
    .axi_write__aw__payload({aw_len, aw_addr, 1'b0}),
    // data, strb, last.
    .axi_write__w__valid(w_valid), .axi_write__w__ready(w_ready),
    .axi_write__w__payload({w_last, 8'hff, w_data}),
    .axi_write__b__valid(b_valid), .axi_write__b__ready(1'b1), .axi_write__b__payload(),
    .ready(ready),
    .pins__clk_en(clk_en), .pins__cs(cs), .pins__ras(ras), .pins__cas(cas), .pins__we(we),
    .pins__ba(ba), .pins__a(a), .pins__dqm(dqm),
    .pins__dq__i(dq), .pins__dq__o(o), .pins__dq__oe(oe)
  );
endmodule
