// Random AXI traffic through a Verilated SDRAM controller, with the SDRAM's model at its pins.
//
// Bursts of both directions are drawn without end, any length and place, with random strobes;
// every channel idles in a share of cycles that is drawn anew from time to time; resets come at
// random. Every byte read is compared with an array of bytes. A burst keeps away from those under
// way in the other direction, whose order is not said. The SDRAM has SOAK_GEAR edges in a cycle, the
// command at the first.

#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "Vsoak.h"
#include "sdram.h"
#include "verilated.h"

namespace {

constexpr uint32_t kBytes = SOAK_BUS_BYTES, kOutstanding = 8;

struct Burst {
  uint32_t address, beats, id, done;
  std::vector<uint8_t> bytes;  // of a read: what it has to return
};

struct Beat {
  uint8_t data[kBytes];
  uint32_t strobes;
};

class Soak {
 public:
  Soak(const matloom::SdramShape& shape, uint32_t span, uint64_t seed)
      : sdram_(shape), data_bytes_(shape.data_bytes), memory_(span), random_(seed) {
    start();
  }

  // Runs for some cycles; false once anything is wrong.
  bool run(uint64_t cycles, uint32_t reset_every) {
    while (cycles-- && right_ && !sdram_.breach()) {
      if (reset_every && random_() % reset_every == 0) start();
      if (random_() % 2048 == 0) draw_stalls();
      cycle();
    }
    return right_ && !sdram_.breach();
  }

  uint64_t counts[4] = {};  // read beats, write beats, resets, cycles
  matloom::Sdram sdram_;

 private:
  enum { kAr, kR, kAw, kW, kB, kChannels };

  void draw_stalls() {
    for (uint32_t& stall : stalls_) {
      const uint32_t kinds[] = {0, 0, 100, 500, 900, 1000};
      stall = kinds[random_() % 6];
    }
  }

  bool open(int channel) { return random_() % 1000 >= stalls_[channel]; }

  // A reset may cut a burst short, which is no breach: power goes off with it.
  void start() {
    top_.rst = 1;
    top_.ar_valid = top_.aw_valid = top_.w_valid = top_.r_ready = top_.b_ready = 0;
    for (int i = 0; i < 2; ++i) edge();
    top_.rst = 0;
    reads_.clear();
    writes_.clear();
    beats_.clear();
    for (uint8_t& byte : memory_) byte = uint8_t(random_());
    sdram_.power_up();
    sdram_.write(0, memory_.data(), memory_.size());
    draw_stalls();
    ++counts[2];
  }

  Burst draw() {
    const uint32_t most = 4096 / kBytes < 256 ? 4096 / kBytes : 256;
    uint32_t beats = random_() % 4 ? 1 + random_() % 8 : 1 + random_() % most;
    if (random_() % 4 == 0) beats = 32;
    const uint32_t page = random_() % (memory_.size() / 4096);
    const uint32_t first = random_() % (4096 / kBytes - beats + 1);
    return Burst{page * 4096 + first * kBytes, beats, uint32_t(random_() & 1), 0, {}};
  }

  static bool apart(const Burst& one, const std::deque<Burst>& others) {
    for (const Burst& other : others) {
      if (one.address < other.address + other.beats * kBytes &&
          other.address < one.address + one.beats * kBytes) {
        return false;
      }
    }
    return true;
  }

  void offer() {
    if (!top_.ar_valid && open(kAr) && reads_.size() < kOutstanding) offer_read();
    if (!top_.aw_valid && open(kAw) && writes_.size() < kOutstanding) offer_write();
    if (!top_.w_valid && !beats_.empty() && open(kW)) {
      std::memcpy(&top_.w_data, beats_.front().data, kBytes);
      top_.w_strb = beats_.front().strobes;
      top_.w_valid = 1;
      beats_.pop_front();
    }
    top_.r_ready = open(kR);
    top_.b_ready = open(kB);
  }

  void offer_read() {
    Burst burst = draw();
    if (!apart(burst, writes_)) return;
    const auto begin = memory_.begin() + burst.address;
    burst.bytes.assign(begin, begin + burst.beats * kBytes);
    top_.ar_valid = 1;
    top_.ar_id = burst.id;
    top_.ar_addr = burst.address;
    top_.ar_len = burst.beats - 1;
    reads_.push_back(std::move(burst));
  }

  void offer_write() {
    const Burst burst = draw();
    if (!apart(burst, reads_)) return;
    const bool whole = random_() & 1;
    for (uint32_t i = 0; i < burst.beats; ++i) {
      Beat beat;
      beat.strobes = uint32_t(whole ? ~0u : random_()) & uint32_t((1ull << kBytes) - 1);
      for (uint32_t k = 0; k < kBytes; ++k) {
        beat.data[k] = uint8_t(random_());
        if (beat.strobes >> k & 1) memory_[burst.address + i * kBytes + k] = beat.data[k];
      }
      beats_.push_back(beat);
    }
    top_.aw_valid = 1;
    top_.aw_id = burst.id;
    top_.aw_addr = burst.address;
    top_.aw_len = burst.beats - 1;
    writes_.push_back(burst);
  }

  void take_read() {
    if (reads_.empty()) {
      right_ = false;
      return;
    }
    Burst& burst = reads_.front();
    uint8_t found[kBytes];
    std::memcpy(found, &top_.r_data, kBytes);
    right_ &= !std::memcmp(found, burst.bytes.data() + burst.done * kBytes, kBytes);
    ++burst.done;
    const bool last = burst.done == burst.beats;
    right_ &= top_.r_id == burst.id && bool(top_.r_last) == last;
    if (last) reads_.pop_front();
    ++counts[0];
  }

  void take_response() {
    right_ &= !writes_.empty() && top_.b_id == writes_.front().id;
    if (!writes_.empty()) writes_.pop_front();
  }

  void cycle() {
    offer();
    top_.clk = 0;
    top_.eval();
    const bool ar = top_.ar_valid && top_.ar_ready, aw = top_.aw_valid && top_.aw_ready;
    const bool w = top_.w_valid && top_.w_ready;
    if (top_.r_valid && top_.r_ready) take_read();
    if (top_.b_valid && top_.b_ready) take_response();
    counts[1] += w;
    edge();
    if (ar) top_.ar_valid = 0;
    if (aw) top_.aw_valid = 0;
    if (w) top_.w_valid = 0;
    ++counts[3];
  }

  void edge() {
    top_.clk = 0;
    top_.eval();
    matloom::SdramPins pins{top_.clk_en, top_.cs, top_.ras, top_.cas, top_.we,
                            top_.ba,     top_.a,  0,        top_.dq_oe, 0};
    const uint64_t masks = top_.dqm, words = top_.dq_o;
    top_.clk = 1;
    top_.eval();
    uint64_t found = 0;
    for (uint32_t i = 0; i < SOAK_GEAR; ++i) {
      pins.dqm = uint32_t(masks >> i * data_bytes_ & ((1u << data_bytes_) - 1));
      pins.dq = uint32_t(words >> i * 8 * data_bytes_ & ((1ull << 8 * data_bytes_) - 1));
      found |= uint64_t(sdram_.step(pins)) << i * 8 * data_bytes_;
      pins.cs = pins.ras = pins.cas = pins.we = 0;
    }
    top_.dq_i = decltype(top_.dq_i)(found);
  }

  VerilatedContext context_;
  Vsoak top_{&context_};
  uint32_t data_bytes_;
  std::vector<uint8_t> memory_;
  std::mt19937_64 random_;
  std::deque<Burst> reads_, writes_;
  std::deque<Beat> beats_;
  uint32_t stalls_[kChannels] = {};
  bool right_ = true;
};

}  // namespace

extern "C" {

// Returns 0 if all was right; fills counts (read beats, write beats, resets, cycles) and the breach.
int soak(const matloom::SdramShape* shape, uint32_t span, uint64_t seed, uint64_t cycles,
         uint32_t reset_every, uint64_t* counts, uint32_t* breach) {
  Soak soak(*shape, span, seed);
  const bool right = soak.run(cycles, reset_every);
  std::memcpy(counts, soak.counts, sizeof soak.counts);
  *breach = soak.sdram_.breach();
  return !right;
}
}
