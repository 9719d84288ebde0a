// Runs a Verilated chip with a serial line and a memory, the line on a file descriptor or in calls, for
// ctypes.

#include <cstdint>

#include "Vmatloom_linked.h"
#include "memory.h"
#include "serve.h"
#include "uart.h"
#include "verilated.h"

namespace {

class Simulation {
 public:
  Simulation(uint8_t* memory, uint64_t base, uint64_t bytes, uint32_t divisor)
      : memory_(memory, base, bytes), uart_(divisor), top_(any_state(context_)) {
    top_.rst = 1;
    for (int i = 0; i < 4; ++i) step();
    memory_.reset();
    uart_.from_chip.clear();
    top_.rst = 0;
  }
  ~Simulation() {
    // Scopes of the model take themselves out of this thread's context, which may be another's.
    Verilated::threadContextp(&context_);
    top_.final();
  }

  void serve(int line, const volatile int* stop) {
    matloom::serve(uart_, [this] { step(); }, line, [stop] { return *stop != 0; });
  }

  void put(const uint8_t* bytes, uint64_t count) {
    uart_.to_chip.insert(uart_.to_chip.end(), bytes, bytes + count);
  }

  // Runs for so many cycles, or until a byte has come from the chip.
  void run(uint64_t cycles) {
    while (cycles-- > 0 && uart_.from_chip.empty()) step();
  }

  // Takes what has come from the chip, up to so many bytes; returns how many.
  uint64_t take(uint8_t* bytes, uint64_t most) {
    uint64_t count = 0;
    for (; count < most && !uart_.from_chip.empty(); ++count) {
      bytes[count] = uart_.from_chip.front();
      uart_.from_chip.pop_front();
    }
    return count;
  }

  uint64_t cycles() const { return cycles_; }

 private:
  static VerilatedContext* any_state(VerilatedContext& context) {
    context.randReset(2);
    context.randSeed(1);
    return &context;
  }

  void step() {
    top_.uart_rx = uart_.drive();
    memory_.settle(top_);
    top_.clk = 0;
    top_.eval();
    // What the chip drives during its reset has no meaning.
    if (!top_.rst) {
      uart_.sample(top_.uart_tx);
      memory_.finish(top_);
    }
    top_.clk = 1;
    top_.eval();
    ++cycles_;
  }

  matloom::Memory<Vmatloom_linked, MATLOOM_BUS_BYTES> memory_;
  matloom::Uart uart_;
  VerilatedContext context_;
  Vmatloom_linked top_;
  uint64_t cycles_ = 0;
};

}  // namespace

extern "C" {
void* linked_create(uint8_t* memory, uint64_t base, uint64_t bytes, uint32_t divisor) {
  return new Simulation(memory, base, bytes, divisor);
}
void linked_destroy(void* simulation) { delete static_cast<Simulation*>(simulation); }
void linked_serve(void* simulation, int line, const volatile int* stop) {
  static_cast<Simulation*>(simulation)->serve(line, stop);
}
void linked_put(void* simulation, const uint8_t* bytes, uint64_t count) {
  static_cast<Simulation*>(simulation)->put(bytes, count);
}
void linked_run(void* simulation, uint64_t cycles) {
  static_cast<Simulation*>(simulation)->run(cycles);
}
uint64_t linked_take(void* simulation, uint8_t* bytes, uint64_t most) {
  return static_cast<Simulation*>(simulation)->take(bytes, most);
}
uint64_t linked_cycles(void* simulation) {
  return static_cast<Simulation*>(simulation)->cycles();
}
}
