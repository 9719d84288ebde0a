// Plays recorded register writes to the chip, serves its external memory, and looks for X.
//
// An operation has 64 bits: {kind[7:0], offset[23:0], value[31:0]}, of kind 1 a write, of kind 2 one
// that starts a run. Before run n external memory is read from before_n.hex, and when the interrupt
// rises it is written to after_n.hex.

`timescale 1ns / 1ps

module bench;
  localparam SIZE = `MEMORY_BYTES;
  localparam LIMIT = `CYCLES;

  reg clk, rst;
  reg [11:0] s_axil_awaddr, s_axil_araddr;
  reg s_axil_awvalid, s_axil_wvalid, s_axil_bready, s_axil_arvalid, s_axil_rready;
  reg [31:0] s_axil_wdata;
  wire s_axil_awready, s_axil_wready, s_axil_bvalid, s_axil_arready, s_axil_rvalid, irq;
  wire [1:0] s_axil_bresp, s_axil_rresp;
  wire [31:0] s_axil_rdata;

  wire [31:0] m_axi_araddr, m_axi_awaddr, m_axi_wdata;
  wire [7:0] m_axi_arlen, m_axi_awlen;
  wire [3:0] m_axi_wstrb;
  wire m_axi_arid, m_axi_awid, m_axi_arvalid, m_axi_awvalid, m_axi_wvalid, m_axi_wlast;
  wire m_axi_rready, m_axi_bready;
  reg m_axi_arready, m_axi_awready, m_axi_wready, m_axi_rvalid, m_axi_rlast, m_axi_rid;
  reg m_axi_bvalid, m_axi_bid;
  reg [31:0] m_axi_rdata;

  matloom chip (
      .clk(clk), .rst(rst), .irq(irq),
      .s_axil_awaddr(s_axil_awaddr), .s_axil_awprot(3'b0),
      .s_axil_awvalid(s_axil_awvalid), .s_axil_awready(s_axil_awready),
      .s_axil_wdata(s_axil_wdata), .s_axil_wstrb(4'hf),
      .s_axil_wvalid(s_axil_wvalid), .s_axil_wready(s_axil_wready),
      .s_axil_bresp(s_axil_bresp), .s_axil_bvalid(s_axil_bvalid), .s_axil_bready(s_axil_bready),
      .s_axil_araddr(s_axil_araddr), .s_axil_arprot(3'b0),
      .s_axil_arvalid(s_axil_arvalid), .s_axil_arready(s_axil_arready),
      .s_axil_rdata(s_axil_rdata), .s_axil_rresp(s_axil_rresp),
      .s_axil_rvalid(s_axil_rvalid), .s_axil_rready(s_axil_rready),
      .m_axi_araddr(m_axi_araddr), .m_axi_arlen(m_axi_arlen), .m_axi_arid(m_axi_arid),
      .m_axi_arvalid(m_axi_arvalid), .m_axi_arready(m_axi_arready),
      .m_axi_rdata(m_axi_rdata), .m_axi_rid(m_axi_rid), .m_axi_rresp(2'b0),
      .m_axi_rlast(m_axi_rlast), .m_axi_rvalid(m_axi_rvalid), .m_axi_rready(m_axi_rready),
      .m_axi_awaddr(m_axi_awaddr), .m_axi_awlen(m_axi_awlen), .m_axi_awid(m_axi_awid),
      .m_axi_awvalid(m_axi_awvalid), .m_axi_awready(m_axi_awready),
      .m_axi_wdata(m_axi_wdata), .m_axi_wstrb(m_axi_wstrb), .m_axi_wlast(m_axi_wlast),
      .m_axi_wvalid(m_axi_wvalid), .m_axi_wready(m_axi_wready),
      .m_axi_bid(m_axi_bid), .m_axi_bresp(2'b0),
      .m_axi_bvalid(m_axi_bvalid), .m_axi_bready(m_axi_bready)
  );

  reg [7:0] memory[0:SIZE-1];
  reg [63:0] operations[0:`OPERATIONS-1];

  // External memory: one burst at a time each way; nothing is said while nothing is valid.
  reg [31:0] read_at, write_at;
  reg [7:0] read_left;
  reg reading, writing, read_id;
  integer lane, cycle, found, next, starts, seed;
  reg aw_taken, w_taken, waiting;

  task look(input [12*8:1] name, input valid, input undefined);
    if (valid === 1'bx || (valid === 1'b1 && undefined)) begin
      found = found + 1;
      $display("UNDEFINED %0s in cycle %0d", name, cycle);
      if (found == `PATIENCE) $finish;
    end
  endtask

  // Valid of the chip's channels is looked at in a reset, too; all else after it.
  always @(posedge clk) begin
    look("arvalid", m_axi_arvalid, ^{m_axi_araddr, m_axi_arlen, m_axi_arid} === 1'bx);
    look("awvalid", m_axi_awvalid, ^{m_axi_awaddr, m_axi_awlen, m_axi_awid} === 1'bx);
    look("wvalid", m_axi_wvalid, ^{m_axi_wstrb, m_axi_wlast} === 1'bx);
    for (lane = 0; lane < 4; lane = lane + 1)
      look("wdata", m_axi_wvalid & m_axi_wstrb[lane], ^m_axi_wdata[8*lane+:8] === 1'bx);
    look("bvalid", s_axil_bvalid, ^s_axil_bresp === 1'bx);
    look("rvalid", s_axil_rvalid, ^{s_axil_rresp, s_axil_rdata} === 1'bx);
    if (!rst) begin
      look("awready", s_axil_awready, 1'b0);
      look("wready", s_axil_wready, 1'b0);
      look("arready", s_axil_arready, 1'b0);
      look("m rready", m_axi_rready, 1'b0);
      look("m bready", m_axi_bready, 1'b0);
      look("irq", irq, 1'b0);
    end
  end

  always @(posedge clk)
    if (rst) begin
      m_axi_arready <= 0; m_axi_awready <= 0; m_axi_wready <= 0;
      m_axi_rvalid <= 0; m_axi_bvalid <= 0; reading <= 0; writing <= 0;
      m_axi_rid <= 0; m_axi_bid <= 0;
    end else begin
      // Addresses are taken when nothing is under way.
      m_axi_arready <= !reading && !(m_axi_arvalid && m_axi_arready);
      m_axi_awready <= !writing && !(m_axi_awvalid && m_axi_awready);
      if (m_axi_arvalid && m_axi_arready) begin
        reading <= 1; read_at <= m_axi_araddr; read_left <= m_axi_arlen; read_id <= m_axi_arid;
      end
      if (m_axi_rvalid && m_axi_rready) begin
        m_axi_rvalid <= 0; m_axi_rdata <= 32'bx; m_axi_rlast <= 1'bx; m_axi_rid <= `IDLE_ID;
      end
      if (reading && !m_axi_rvalid && $random(seed) % 4 != 0) begin
        m_axi_rvalid <= 1; m_axi_rid <= read_id; m_axi_rlast <= read_left == 0;
        for (lane = 0; lane < 4; lane = lane + 1)
          m_axi_rdata[8*lane+:8] <= memory[read_at+lane];
        read_at <= read_at + 4; read_left <= read_left - 1; reading <= read_left != 0;
      end
      if (m_axi_awvalid && m_axi_awready) begin
        writing <= 1; write_at <= m_axi_awaddr; m_axi_wready <= 1;
      end
      if (m_axi_wvalid && m_axi_wready) begin
        for (lane = 0; lane < 4; lane = lane + 1)
          if (m_axi_wstrb[lane]) memory[write_at+lane] <= m_axi_wdata[8*lane+:8];
        write_at <= write_at + 4;
        if (m_axi_wlast) begin
          m_axi_wready <= 0; m_axi_bvalid <= 1;
        end
      end
      if (m_axi_bvalid && m_axi_bready) begin
        m_axi_bvalid <= 0; writing <= 0;
      end
    end

  always #5 clk = ~clk;
  always @(posedge clk) begin
    cycle = cycle + 1;
    if (cycle == LIMIT) begin
      $display("HANGS");
      $finish;
    end
  end

  task write(input [11:0] offset, input [31:0] value);
    begin
      s_axil_awaddr <= offset; s_axil_wdata <= value;
      s_axil_awvalid <= 1; s_axil_wvalid <= 1; s_axil_bready <= 1;
      aw_taken = 0; w_taken = 0; waiting = 1;
      while (waiting) begin
        @(posedge clk);
        if (s_axil_awvalid && s_axil_awready) s_axil_awvalid <= 0;
        if (s_axil_wvalid && s_axil_wready) s_axil_wvalid <= 0;
        if (s_axil_bvalid) waiting = 0;
      end
      s_axil_bready <= 0;
      @(posedge clk);
    end
  endtask

  reg [256*8:1] name;
  initial begin
    $readmemh("operations.hex", operations);
    clk = 0; rst = 1; cycle = 0; found = 0; starts = 0; seed = 1;
    s_axil_awvalid = 0; s_axil_wvalid = 0; s_axil_bready = 0;
    s_axil_arvalid = 0; s_axil_rready = 0;
    repeat (2) @(posedge clk);
    rst <= 0;
    @(posedge clk);
    for (next = 0; next < `OPERATIONS; next = next + 1) begin
      if (operations[next][63:56] == 2) begin
        $sformat(name, "before_%0d.hex", starts);
        $readmemh(name, memory);
      end
      write(operations[next][43:32], operations[next][31:0]);
      if (operations[next][63:56] == 2) begin
        while (!irq) @(posedge clk);
        $sformat(name, "after_%0d.hex", starts);
        $writememh(name, memory);
        starts = starts + 1;
      end
    end
    $display("DONE %0d runs, %0d cycles, %0d undefined", starts, cycle, found);
    $finish;
  end
endmodule
