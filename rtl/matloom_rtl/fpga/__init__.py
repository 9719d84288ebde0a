"""Area and clock of Verilog on FPGAs, with open tools."""
