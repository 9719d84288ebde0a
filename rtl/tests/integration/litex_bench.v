// Plays recorded register writes to a LiteX SoC by its Wishbone bus; the engine reaches memory by
// the SoC's own interconnect. Operations and memory as in four_states_bench.v, words of 32 bits.

module bench;
  reg clk = 0;
  reg [29:0] adr;
  reg [31:0] dat_w;
  reg cyc = 0;
  wire ack, err, irq;
  wire [31:0] dat_r;

  soc soc (
      .sys_clk(clk), .sim_trace(1'b0), .irq(irq),
      .host_adr(adr), .host_dat_w(dat_w), .host_dat_r(dat_r), .host_we(cyc), .host_sel(4'hf),
      .host_cyc(cyc), .host_stb(cyc), .host_ack(ack), .host_err(err),
      .host_cti(3'b0), .host_bte(2'b0)
  );

  reg [63:0] operations[0:`OPERATIONS-1];
  reg [256*8:1] name;
  integer cycle = 0, next, starts = 0;

  always #5 clk = ~clk;
  always @(posedge clk) begin
    cycle = cycle + 1;
    if (cycle == `CYCLES || err === 1'b1) begin
      $display("FAIL: cycle %0d, error %b", cycle, err);
      $finish;
    end
  end

  initial begin
    $readmemh("operations.hex", operations);
    repeat (10) @(posedge clk);
    for (next = 0; next < `OPERATIONS; next = next + 1) begin
      if (operations[next][63:56] == 2) begin
        $sformat(name, "before_%0d.hex", starts);
        $readmemh(name, soc.ram);
      end
      adr <= (`ORIGIN + operations[next][55:32]) >> 2;
      dat_w <= operations[next][31:0];
      cyc <= 1;
      @(posedge clk);
      @(posedge clk);
      while (!ack) @(posedge clk);
      cyc <= 0;
      @(posedge clk);
      if (operations[next][63:56] == 2) begin
        while (!irq) @(posedge clk);
        $sformat(name, "after_%0d.hex", starts);
        $writememh(name, soc.ram);
        starts = starts + 1;
      end
    end
    $display("DONE %0d runs, %0d cycles", starts, cycle);
    $finish;
  end
endmodule
