// Runs a Verilated board, its line on a file descriptor, for ctypes: as linked.cpp, but memory,
// reset and clock are the board's own. An SDRAM, where it has one, is at its pins, and the
// simulation stands still where a rule of it is broken.

#include <cstdint>

#include "../sdram.h"
#include "Vmatloom_board.h"
#include "serve.h"
#include "uart.h"
#include "verilated.h"

namespace {

class Simulation {
 public:
  Simulation(const matloom::SdramShape* sdram, uint32_t divisor)
      : uart_(divisor), sdram_(sdram ? *sdram : matloom::SdramShape{}), top_(any_state(context_)) {
    for (uint32_t i = 0; i < kStart; ++i) step();
    uart_.from_chip.clear();
  }
  ~Simulation() { top_.final(); }

  void serve(int line, const volatile int* stop) {
    matloom::serve(uart_, [this] { step(); }, line, [=, this] { return *stop || breach(); });
  }

  uint64_t cycles() const { return cycles_; }
  uint32_t breach() const { return sdram_.breach(); }
  uint64_t breach_cycle() const { return kClock + sdram_.breach_edge(); }

 private:
  // Cycles until the PLL of cells.v has locked, and until the reset is over.
  static constexpr uint32_t kClock = 64, kStart = 256;

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
#ifdef MATLOOM_SDRAM
    // The edge at the end of this cycle. Before the lock there is no clock to speak of.
    const uint32_t word = cycles_ < kClock || breach() ? 0 : sdram_.step(pins());
#endif
    top_.clk = 1;
    top_.eval();
#ifdef MATLOOM_SDRAM
    top_.sdram_dq = decltype(top_.sdram_dq)(word);
#endif
    ++cycles_;
  }

#ifdef MATLOOM_SDRAM
  matloom::SdramPins pins() const {
    return {top_.sdram_clk_en, !top_.sdram_cs, !top_.sdram_ras, !top_.sdram_cas,
            !top_.sdram_we,    top_.sdram_ba,  top_.sdram_a,    top_.sdram_dqm,
            top_.sdram_dq__en != 0, top_.sdram_dq__out};
  }
#endif

  matloom::Uart uart_;
  matloom::Sdram sdram_;
  VerilatedContext context_;
  Vmatloom_board top_;
  uint64_t cycles_ = 0;
};

}  // namespace

extern "C" {
// A board has its memory inside, or an SDRAM of this shape.
void* linked_create(const matloom::SdramShape* sdram, uint64_t, uint64_t, uint32_t divisor) {
  return new Simulation(sdram, divisor);
}
uint32_t linked_breach(void* simulation, uint64_t* cycle) {
  *cycle = static_cast<Simulation*>(simulation)->breach_cycle();
  return static_cast<Simulation*>(simulation)->breach();
}
void linked_destroy(void* simulation) { delete static_cast<Simulation*>(simulation); }
void linked_serve(void* simulation, int line, const volatile int* stop) {
  static_cast<Simulation*>(simulation)->serve(line, stop);
}
uint64_t linked_cycles(void* simulation) {
  return static_cast<Simulation*>(simulation)->cycles();
}
}
