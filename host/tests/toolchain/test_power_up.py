from matloom.toolchain.power_up import without_initial_values

TEXT = """\
module m (clk);
  reg \\$auto$verilog_backend.cc:2355:dump_module$1  = 0;
  reg plain = 1'h1;
  reg [7:0] \\wide$2  = 8'h7f;
  reg signed [3:0] number = 4'h8;
  reg [7:0] rom [1:0];
  initial begin
    rom[0] = 8'h00;
    rom[1] = 8'h12;
  end
  wire [7:0] a = 8'h01;
endmodule
"""


def test_registers_lose_their_initial_values_and_tables_keep_theirs():
    lines = dict(zip(TEXT.splitlines(), without_initial_values(TEXT).splitlines(), strict=True))
    changed = {before: after for before, after in lines.items() if before != after}
    assert changed == {
        "  reg plain = 1'h1;": "  reg plain ;",
        "  reg [7:0] \\wide$2  = 8'h7f;": "  reg [7:0] \\wide$2 ;",
        "  reg signed [3:0] number = 4'h8;": "  reg signed [3:0] number ;",
    }
