// Runs a Verilated chip with a host link beside a memory, its line on a file descriptor, for
// ctypes.

#include <poll.h>
#include <unistd.h>

#include <cstdint>

#include "Vmatloom_linked.h"
#include "memory.h"
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
  ~Simulation() { top_.final(); }

  // Passes bytes between a pseudo-terminal's far end, which must not block, and the chip.
  void serve(int line, const volatile int* stop) {
    uint64_t quiet = 0;
    while (!*stop) {
      if (quiet > kQuiet) {
        pollfd waiting{line, POLLIN, 0};
        if (poll(&waiting, 1, kPollMilliseconds) <= 0) continue;
      }
      const bool came = receive(line);
      for (uint32_t i = 0; i < kBatch; ++i) step();
      const bool went = send(line);
      quiet = came || went || uart_.busy() ? 0 : quiet + kBatch;
    }
  }

  uint64_t cycles() const { return cycles_; }

 private:
  // Cycles without a byte after which the clock stands still: more than a WAIT of the host takes.
  static constexpr uint64_t kQuiet = 5 << 18;
  static constexpr uint32_t kBatch = 1 << 11;
  static constexpr int kPollMilliseconds = 20;

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

  bool receive(int line) {
    uint8_t bytes[4096];
    const ssize_t count = read(line, bytes, sizeof bytes);
    if (count <= 0) return false;
    uart_.to_chip.insert(uart_.to_chip.end(), bytes, bytes + count);
    return true;
  }

  bool send(int line) {
    bool went = false;
    while (!uart_.from_chip.empty() && write(line, &uart_.from_chip.front(), 1) == 1) {
      uart_.from_chip.pop_front();
      went = true;
    }
    return went;
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
uint64_t linked_cycles(void* simulation) {
  return static_cast<Simulation*>(simulation)->cycles();
}
}
