// Full bursts through an SDRAM controller, the model of sdram.h at its pins, for ctypes.
//
// Up to eight bursts of each direction are under way, beats to write come as fast as they are
// taken, and answers are taken at once. What is read is compared with what was there, and what was
// written with what the SDRAM holds in the end. Until the controller enables the SDRAM's clock no
// edge of it counts. That clock is in phase with the controller's, or late by part of a cycle, so
// that the SDRAM sees what the pins have come to carry in the same cycle.

#include <cstdint>
#include <random>
#include <vector>

#include "Vyardstick.h"
#include "sdram.h"
#include "verilated.h"

namespace {

constexpr uint32_t kBytes = 8, kUnderWay = 8, kSpan = 1 << 20;
// Cycles in which the last words reach the SDRAM; cycles after which nothing comes any more.
constexpr uint32_t kAfter = 1000, kLimit = 1'000'000;

struct Burst {
  uint32_t address, beats;
};

// To a register, and cycles to wait before.
struct Csr {
  uint32_t address, data, wait;
};

struct Result {
  uint64_t first, last, columns, activations, refreshes, edge, wrong;
  uint32_t breach;
};

class Bench {
 public:
  Bench(const matloom::SdramShape& shape, bool late)
      : sdram_(shape), memory_(kSpan), late_(late) {
    sdram_.allow_auto_precharge();
    for (uint8_t& byte : memory_) byte = uint8_t(random_());
    sdram_.write(0, memory_.data(), memory_.size());
    top_.rst = 1;
    for (int i = 0; i < 8; ++i) cycle();
    top_.rst = 0;
  }
  ~Bench() { top_.final(); }

  void initialise(const Csr* writes, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t k = 0; k < writes[i].wait; ++k) cycle();
      top_.csr_address = writes[i].address;
      top_.csr_data = writes[i].data;
      top_.csr_write = 1;
      while (!cycle()) continue;
      top_.csr_write = 0;
      cycle();
    }
    while (!top_.ready && cycles_ < kLimit) cycle();
  }

  void run(std::vector<Burst> reads, std::vector<Burst> writes) {
    const uint64_t limit = cycles_ + kLimit;
    reads_ = std::move(reads);
    writes_ = std::move(writes);
    measured_ = true;
    columns_ = sdram_.columns();
    activations_ = sdram_.activations();
    refreshes_ = sdram_.refreshes();
    while (read_ < reads_.size() || answered_ < writes_.size()) {
      if (cycles_ == limit) return;
      offer();
      cycle();
    }
    for (uint32_t i = 0; i < kAfter; ++i) cycle();
    complete_ = true;
  }

  Result result() {
    std::vector<uint8_t> held(kSpan);
    sdram_.read(0, held.data(), held.size());
    for (uint32_t i = 0; i < kSpan; ++i) wrong_ += held[i] != memory_[i];
    return {first_, last_, sdram_.columns() - columns_, sdram_.activations() - activations_,
            last_refreshes_ - refreshes_, sdram_.breach_edge(), wrong_ + !complete_,
            sdram_.breach()};
  }

 private:
  void offer() {
    top_.ar_valid = asked_ < reads_.size() && asked_ - read_ < kUnderWay;
    if (top_.ar_valid) {
      top_.ar_addr = reads_[asked_].address;
      top_.ar_len = reads_[asked_].beats - 1;
    }
    top_.aw_valid = told_ < writes_.size() && told_ - answered_ < kUnderWay;
    if (top_.aw_valid) {
      top_.aw_addr = writes_[told_].address;
      top_.aw_len = writes_[told_].beats - 1;
    }
    // Beats follow their address.
    top_.w_valid = sent_ < told_;
    if (!top_.w_valid || drawn_) return;
    uint64_t word = 0;
    for (uint32_t i = 0; i < kBytes; ++i) {
      uint8_t& byte = memory_[writes_[sent_].address + sent_beats_ * kBytes + i];
      byte = uint8_t(random_());
      word |= uint64_t{byte} << 8 * i;
    }
    top_.w_data = word;
    top_.w_last = sent_beats_ + 1 == writes_[sent_].beats;
    drawn_ = true;
  }

  void take_read() {
    if (read_ == asked_) {
      ++wrong_;
      return;
    }
    const Burst& burst = reads_[read_];
    for (uint32_t i = 0; i < kBytes; ++i) {
      wrong_ += uint8_t(top_.r_data >> 8 * i) != memory_[burst.address + read_beats_ * kBytes + i];
    }
    const bool last = ++read_beats_ == burst.beats;
    wrong_ += bool(top_.r_last) != last;
    if (last) {
      read_beats_ = 0;
      ++read_;
    }
  }

  void transfer() {
    if (top_.r_valid) take_read();
    if (top_.b_valid) ++answered_;
    if (top_.ar_valid && top_.ar_ready) ++asked_;
    if (top_.w_valid && top_.w_ready) {
      drawn_ = false;
      if (++sent_beats_ == writes_[sent_].beats) {
        sent_beats_ = 0;
        ++sent_;
      }
    }
    if (top_.aw_valid && top_.aw_ready) ++told_;
  }

  matloom::SdramPins pins() const {
    return {top_.clk_en, top_.cs, top_.ras, top_.cas, top_.we,
            top_.ba, top_.a, top_.dqm, top_.dq__en != 0, top_.dq__out};
  }

  // Returns whether a register was written.
  bool cycle() {
    top_.clk = 0;
    top_.eval();
    if (measured_) transfer();
    const bool done = top_.csr_write && top_.csr_done;
    matloom::SdramPins seen = pins();
    top_.clk = 1;
    top_.eval();
    if (late_) seen = pins();
    const bool column = seen.cs && seen.cas && !seen.ras;
    enabled_ |= seen.clk_en != 0;
    if (enabled_) top_.dq = uint16_t(sdram_.step(seen));
    if (measured_ && column) {
      if (!first_) first_ = cycles_;
      last_ = cycles_;
      last_refreshes_ = sdram_.refreshes();
    }
    ++cycles_;
    return done;
  }

  VerilatedContext context_;
  Vyardstick top_{&context_};
  matloom::Sdram sdram_;
  std::mt19937_64 random_;
  std::vector<uint8_t> memory_;
  bool late_;
  std::vector<Burst> reads_, writes_;
  // Bursts asked for and read; told of, sent and answered.
  uint32_t asked_ = 0, read_ = 0, told_ = 0, sent_ = 0, answered_ = 0;
  uint32_t read_beats_ = 0, sent_beats_ = 0;
  bool drawn_ = false, measured_ = false, enabled_ = false, complete_ = false;
  uint64_t cycles_ = 0, first_ = 0, last_ = 0, wrong_ = 0;
  uint64_t columns_ = 0, activations_ = 0, refreshes_ = 0, last_refreshes_ = 0;
};

}  // namespace

extern "C" void yardstick(const matloom::SdramShape* shape, const Csr* csrs, uint32_t csr_count,
                          const Burst* reads, uint32_t read_count, const Burst* writes,
                          uint32_t write_count, uint32_t late, Result* result) {
  Bench bench(*shape, late);
  bench.initialise(csrs, csr_count);
  bench.run({reads, reads + read_count}, {writes, writes + write_count});
  *result = bench.result();
}
