"""From Verilog to area and clock, with open tools."""
