"""Verilator warnings that the generated Verilog may raise, each with its reason."""

__all__ = ["WAIVERS"]

#: Verilator's warnings under -Wall that are no defects, with a reason for each; all others are
#: defects. Most reasons lie with the Verilog writer, which converts expressions of known widths to
#: Verilog with implied widths.
WAIVERS = {
    "CASEINCOMPLETE": "a value is assigned before each case, so that what is missing keeps it",
    "CMPCONST": "byte lanes are compared alike; at lane 0 and at the last lane the answer is fixed",
    "DECLFILENAME": "all modules are in one file, which is named as its user likes",
    "PROCASSINIT": "registers are declared with their reset values: FPGAs load them",
    "UNSIGNED": "byte lanes are compared alike; an unsigned number is never below lane 0",
    "UNUSEDSIGNAL": "fields of structures are named for the reader even if nothing reads them",
    "VARHIDDEN": "a register and the module that holds it may share a name",
    "WIDTHEXPAND": "operands are written as narrow as they are; the language extends them",
    "WIDTHTRUNC": "`== 0` is written as `!`, and a part select as a shift that is cut",
}
