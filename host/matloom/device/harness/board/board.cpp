// Runs a Verilated board, its line on a file descriptor, for ctypes: as linked.cpp, but memory,
// reset and clock are the board's own. An SDRAM, where it has one, is at its pins, and the
// simulation stands still where a rule of it is broken. With MATLOOM_GEARED its clock is twice that
// of all else: an edge in the middle of each half cycle, whatever its pin shows.

#include <atomic>
#include <cstdint>
#include <memory>

#include "../sdram.h"
#include "Vmatloom_board.h"
#include "serve.h"
#include "uart.h"
#include "verilated.h"

namespace {

// The FPGA from its configuration on, with anything in its registers.
class Chip {
 public:
  explicit Chip(int seed) : top(any_state(context_, seed)) {}
  ~Chip() {
    // Scopes of the model take themselves out of this thread's context, which may be another's.
    Verilated::threadContextp(&context_);
    top.final();
  }

 private:
  static VerilatedContext* any_state(VerilatedContext& context, int seed) {
    context.randReset(2);
    context.randSeed(seed);
    return &context;
  }

  VerilatedContext context_;

 public:
  Vmatloom_board top;
};

class Simulation {
 public:
  Simulation(const matloom::SdramShape* sdram, uint32_t divisor)
      : uart_(divisor), sdram_(sdram ? *sdram : matloom::SdramShape{}) {
    start();
    for (uint32_t i = 0; i < kStart; ++i) step();
    uart_.from_chip.clear();
  }

  void serve(int line, const volatile int* stop) {
    matloom::serve(uart_, [this] { step(); }, line, [=, this] { return *stop || breach(); });
  }

  uint64_t cycles() const { return cycles_; }
  uint32_t breach() const { return sdram_.breach(); }
  uint64_t breach_cycle() const { return breach_cycle_; }

  // Starts the board anew, SDRAM and all, after so many more cycles with a byte on the line.
  void restart_after(uint32_t busy_cycles) { left_ = busy_cycles; }
  uint32_t starts() const { return starts_; }
  uint64_t written() const { return sdram_.written(); }

 private:
  // Cycles until the PLL of cells.v has locked, and until the reset is over.
  static constexpr uint32_t kClock = 64, kStart = 256;

  void start() {
    chip_.reset();
    chip_ = std::make_unique<Chip>(starts_ + 1);
    sdram_.power_up();
    began_ = cycles_;
    ++starts_;
  }

  void step() {
    if (left_ && uart_.busy() && !--left_) start();
    Vmatloom_board& top = chip_->top;
    top.uart_rx = uart_.drive();
    top.clk = 0;
    top.eval();
    uart_.sample(top.uart_tx);
#ifdef MATLOOM_GEARED
    geared_edge();
#elif defined(MATLOOM_SDRAM)
    const bool low = !top.sdram_clk;
    const matloom::SdramPins before = pins(top);
#endif
    top.clk = 1;
    top.eval();
#ifdef MATLOOM_GEARED
    geared_edge();
#elif defined(MATLOOM_SDRAM)
    if (low && top.sdram_clk) {
      const uint32_t word = edge(before);
      top.sdram_dq = decltype(top.sdram_dq)(word);
    }
#endif
    ++cycles_;
  }

#ifdef MATLOOM_GEARED
  // A word is at the FPGA's register half a cycle of the SDRAM to one and a half after the edge that
  // sends it, for tAC and the ways out and in: after that register's next edge, before the one after.
  void geared_edge() {
    const uint32_t word = edge(pins(chip_->top));
    chip_->top.sdram_dq = decltype(chip_->top.sdram_dq)(late_);
    late_ = word;
  }
  uint32_t late_ = 0;
#endif

#ifdef MATLOOM_SDRAM
  // What the SDRAM makes of an edge. Before the lock there is no clock to speak of.
  uint32_t edge(const matloom::SdramPins& before) {
    if (cycles_ - began_ < kClock || breach()) return 0;
    const uint32_t word = sdram_.step(before);
    if (breach()) breach_cycle_ = cycles_;
    return word;
  }

  static matloom::SdramPins pins(const Vmatloom_board& top) {
    matloom::SdramPins pins = {1, 1, !top.sdram_ras, !top.sdram_cas, !top.sdram_we,
                               top.sdram_ba, top.sdram_a, 0,
                               top.sdram_dq__en != 0, top.sdram_dq__out};
    // What has no pin is wired by the board, as above.
#ifndef MATLOOM_WIRED_CLK_EN
    pins.clk_en = top.sdram_clk_en;
#endif
#ifndef MATLOOM_WIRED_CS
    pins.cs = !top.sdram_cs;
#endif
#ifndef MATLOOM_WIRED_DQM
    pins.dqm = top.sdram_dqm;
#endif
    return pins;
  }
#endif

  matloom::Uart uart_;
  matloom::Sdram sdram_;
  std::unique_ptr<Chip> chip_;
  uint64_t cycles_ = 0, began_ = 0, breach_cycle_ = 0;
  // Set and read by another thread than the one that simulates.
  std::atomic<uint32_t> left_{0}, starts_{0};
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
void linked_restart_after(void* simulation, uint32_t busy_cycles) {
  static_cast<Simulation*>(simulation)->restart_after(busy_cycles);
}
uint32_t linked_starts(void* simulation) { return static_cast<Simulation*>(simulation)->starts(); }
uint64_t linked_written(void* simulation) { return static_cast<Simulation*>(simulation)->written(); }
void linked_destroy(void* simulation) { delete static_cast<Simulation*>(simulation); }
void linked_serve(void* simulation, int line, const volatile int* stop) {
  static_cast<Simulation*>(simulation)->serve(line, stop);
}
uint64_t linked_cycles(void* simulation) {
  return static_cast<Simulation*>(simulation)->cycles();
}
}
