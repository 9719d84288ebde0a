// Runs the netlist of a board in picoseconds, its line on a file descriptor, for ctypes: as
// board.cpp, but the chip's clock comes from a model of its PLL, and is nobody's here.

#include <algorithm>
#include <cstdint>

#include "Vmatloom_board.h"
#include "serve.h"
#include "uart.h"
#include "verilated.h"

namespace {

class Simulation {
 public:
  explicit Simulation(uint32_t divisor) : uart_(divisor), top_(any_state(context_)) {
    top_.clk = 0;
    top_.uart_rx = 1;
    while (now_ < kStart) step();
    uart_.from_chip.clear();
  }
  ~Simulation() {
    // Scopes of the model take themselves out of this thread's context, which may be another's.
    Verilated::threadContextp(&context_);
    top_.final();
  }

  void serve(int line, const volatile int* stop) {
    matloom::serve(uart_, [this] { step(); }, line, [stop] { return *stop != 0; });
  }

  uint64_t cycles() const { return edges_ / 2; }

 private:
  static constexpr uint64_t kSecond = 1'000'000'000'000;
  // Picoseconds until the PLL has locked and the reset is over, with room to spare.
  static constexpr uint64_t kStart = 10'000'000;

  static VerilatedContext* any_state(VerilatedContext& context) {
    context.randReset(2);
    context.randSeed(1);
    return &context;
  }

  // The far end of the line acts once in so many picoseconds, which is no cycle of the chip.
  void step() {
    top_.uart_rx = uart_.drive();
    now_ += MATLOOM_STEP_PS;
    for (uint64_t at = next(); at <= now_; at = next()) {
      context_.time(at);
      if (at == edge_) {
        top_.clk = !top_.clk;
        edge_ = ++edges_ * kSecond / (2 * uint64_t{MATLOOM_INPUT_HZ});
      }
      top_.eval();
    }
    uart_.sample(top_.uart_tx);
  }

  // When something happens next: an edge of the oscillator, or what a model waits for.
  uint64_t next() {
    return top_.eventsPending() ? std::min(edge_, top_.nextTimeSlot()) : edge_;
  }

  matloom::Uart uart_;
  VerilatedContext context_;
  Vmatloom_board top_;
  uint64_t now_ = 0, edge_ = 0, edges_ = 0;
};

}  // namespace

extern "C" {
void* linked_create(void*, uint64_t, uint64_t, uint32_t divisor) {
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
