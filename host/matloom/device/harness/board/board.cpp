// Runs a Verilated board, its line on a file descriptor, for ctypes: as linked.cpp, but memory,
// reset and clock are the board's own.

#include <cstdint>

#include "Vmatloom_board.h"
#include "serve.h"
#include "uart.h"
#include "verilated.h"

namespace {

class Simulation {
 public:
  explicit Simulation(uint32_t divisor) : uart_(divisor), top_(any_state(context_)) {
    for (uint32_t i = 0; i < kStart; ++i) step();
    uart_.from_chip.clear();
  }
  ~Simulation() { top_.final(); }

  void serve(int line, const volatile int* stop) {
    matloom::serve(uart_, [this] { step(); }, line, stop);
  }

  uint64_t cycles() const { return cycles_; }

 private:
  // Cycles until the PLL of pll.v has locked, and the reset is over.
  static constexpr uint32_t kStart = 256;

  static VerilatedContext* any_state(VerilatedContext& context) {
    context.randReset(2);
    context.randSeed(1);
    return &context;
  }

  void step() {
    top_.uart_rx = uart_.drive();
    top_.clk = 0;
    top_.eval();
    uart_.sample(top_.uart_tx);
    top_.clk = 1;
    top_.eval();
    ++cycles_;
  }

  matloom::Uart uart_;
  VerilatedContext context_;
  Vmatloom_board top_;
  uint64_t cycles_ = 0;
};

}  // namespace

extern "C" {
// A board has its memory inside.
void* linked_create(uint8_t*, uint64_t, uint64_t, uint32_t divisor) {
  return new Simulation(divisor);
}
void linked_destroy(void* simulation) { delete static_cast<Simulation*>(simulation); }
void linked_serve(void* simulation, int line, const volatile int* stop) {
  static_cast<Simulation*>(simulation)->serve(line, stop);
}
uint64_t linked_cycles(void* simulation) {
  return static_cast<Simulation*>(simulation)->cycles();
}
}
