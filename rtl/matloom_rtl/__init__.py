"""The matrix engine in Amaranth: units, core, chip top and Verilog."""
