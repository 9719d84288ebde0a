// The link alone with a register file and a memory, with a C interface for ctypes.

#include <cstdint>
#include <vector>

#include "Vlink.h"
#include "memory.h"
#include "uart.h"
#include "verilated.h"

namespace {

constexpr uint32_t kRegisters = 512;

class Bench {
 public:
  Bench(uint8_t* bytes, uint64_t base, uint64_t size, uint32_t divisor)
      : memory_(bytes, base, size), uart_(divisor) {
    reset();
  }
  ~Bench() { top_.final(); }

  void reset() {
    top_.rst = 1;
    for (int i = 0; i < 4; ++i) step();
    memory_.reset();
    read_ = write_ = false;
    top_.rst = 0;
    step();
  }

  void step() {
    top_.rx = uart_.drive();
    top_.irq = interrupt_at && cycle_ >= interrupt_at;
    memory_.settle(top_);
    registers();
    top_.clk = 0;
    top_.eval();
    uart_.sample(top_.tx);
    take_registers();
    memory_.finish(top_);
    top_.clk = 1;
    top_.eval();
    ++cycle_;
  }

  uint64_t cycle_ = 0, interrupt_at = 0;
  matloom::Memory<Vlink, 4> memory_;
  matloom::Uart uart_;
  std::vector<uint32_t> log;
  uint32_t values[kRegisters] = {};

 private:
  // One access at a time, answered in the next cycle.
  void registers() {
    top_.ar_ready = !read_ && !memory_.frozen;
    top_.aw_ready = top_.w_ready = !write_ && !memory_.frozen;
    top_.r_valid = read_;
    top_.b_valid = write_;
    const bool known = address_ / 4 < kRegisters;
    top_.r_data = known ? values[address_ / 4] : 0;
    top_.r_resp = top_.b_resp = known ? 0 : 2;
  }

  void take_registers() {
    const bool asked = top_.ar_valid && top_.ar_ready;
    const bool told = top_.aw_valid && top_.w_valid &&
                      top_.aw_ready;
    if (read_ && top_.r_ready) read_ = false;
    if (write_ && top_.b_ready) write_ = false;
    if (asked) {
      address_ = top_.ar_address;
      read_ = true;
    }
    if (told) {
      address_ = top_.aw_address;
      write_ = true;
      log.push_back(address_);
      log.push_back(top_.w_data);
      if (address_ / 4 < kRegisters) values[address_ / 4] = log.back();
    }
  }

  Vlink top_;
  bool read_ = false, write_ = false;
  uint32_t address_ = 0;
};

}  // namespace

extern "C" {
Bench* bench_create(uint8_t* bytes, uint64_t base, uint64_t size, uint32_t divisor) {
  return new Bench(bytes, base, size, divisor);
}
void bench_destroy(Bench* bench) { delete bench; }
void bench_reset(Bench* bench) { bench->reset(); }
void bench_send(Bench* bench, const uint8_t* data, uint32_t size) {
  bench->uart_.to_chip.insert(bench->uart_.to_chip.end(), data, data + size);
}
// Runs until `room` bytes have come, or some and the line is quiet, or `cycles` have passed.
uint32_t bench_receive(Bench* bench, uint8_t* data, uint32_t room, uint64_t cycles) {
  auto& came = bench->uart_.from_chip;
  for (uint64_t i = 0; i < cycles && came.size() < room; ++i) {
    if (!came.empty() && i % 1024 == 0) break;
    bench->step();
  }
  uint32_t count = 0;
  for (; count < room && !came.empty(); ++count) {
    data[count] = came.front();
    came.pop_front();
  }
  return count;
}
uint64_t bench_cycles(Bench* bench) { return bench->cycle_; }
uint64_t bench_writes(Bench* bench) { return bench->memory_.writes; }
uint32_t bench_log(Bench* bench, uint32_t* log, uint32_t room) {
  uint32_t count = 0;
  for (; count < room && count < bench->log.size(); ++count) log[count] = bench->log[count];
  return static_cast<uint32_t>(bench->log.size());
}
void bench_memory(Bench* bench, uint32_t latency, uint32_t stall, uint32_t frozen) {
  bench->memory_.latency = latency;
  bench->memory_.stall_per_1024 = stall;
  bench->memory_.frozen = frozen;
}
void bench_interrupt(Bench* bench, uint64_t cycles) {
  bench->interrupt_at = cycles ? bench->cycle_ + cycles : 0;
}
}
