// Runs a design of two rails and keeps which of its checks are told.

#include "Vcells.h"
#include "verilated.h"

namespace {
uint64_t told = 0;
}

extern "C" {

void matloom_probe(long long, int check, int) { told |= uint64_t{1} << check; }

// Some cycles before, in and after a reset; returns one bit for each check that was told.
uint64_t rails_run(int mutant) {
  VerilatedContext context;
  context.randReset(2);
  Vcells top(&context);
  told = 0;
  for (int cycle = 0; cycle < 40; ++cycle) {
    top.rst = cycle >= 4 && cycle < 8;
    top.d = top.m_axi_rdata = cycle & 15;
    top.m_axi_rvalid = cycle & 1;
    top.mutsel = mutant;
    for (int clk = 0; clk < 2; ++clk) {
      top.clk = clk;
      top.eval();
    }
  }
  top.final();
  return told;
}
}
