// Runs the Verilated chip with a model of external memory, through a C interface for ctypes.
//
// Timing of the memory: a read burst's first beat follows its address by `read_latency` cycles;
// beats follow each other by `beat_numerator / beat_denominator` cycles, and by `row_miss_cycles`
// more where one is in another row of `row_bytes` than the beat before. Latencies of outstanding
// bursts overlap, data return in order; reads and writes are independent. Stalls, when asked for,
// withhold each handshake at random.

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>

#include "Vmatloom.h"
#include "monitor.h"
#include "outputs.h"
#include "verilated.h"
#ifdef MATLOOM_TRACE_VCD
#include "verilated_vcd_c.h"
using Trace = VerilatedVcdC;
#define MATLOOM_TRACE
#endif
#ifdef MATLOOM_TRACE_FST
#include "verilated_fst_c.h"
using Trace = VerilatedFstC;
#define MATLOOM_TRACE
#endif

#ifdef MATLOOM_MUTANTS
namespace matloom {
static uint32_t chosen_mutant = 0;
}
#endif

namespace {

constexpr uint8_t kOkay = 0, kSlaveError = 2, kDecodeError = 3;

struct Timing {
  uint32_t read_latency = 32;
  uint32_t write_latency = 8;
  uint32_t latency_jitter = 0;
  uint32_t max_outstanding = 16;
  uint32_t stall_per_1024 = 0;
  uint32_t beat_numerator = 1, beat_denominator = 1;
  uint32_t row_bytes = 0;  // 0: rows are no matter
  uint32_t row_miss_cycles = 0;
  uint64_t seed = 0;
  uint64_t error_first = 0, error_end = 0;  // addresses that answer with an error
  uint32_t error_code = kSlaveError;
  uint32_t frozen = 0;  // the memory answers nothing
};

struct Burst {
  uint64_t address;
  uint32_t beats;
  uint64_t due;
  uint8_t id;
};

// When one direction of the memory may pass its next beat.
class Pace {
 public:
  // Whether a beat at this address may pass.
  bool ready(const Timing& timing, uint64_t cycle, uint64_t address) const {
    const uint64_t more = misses(timing, address) ? timing.row_miss_cycles : 0;
    return cycle * timing.beat_denominator >= next_ + more * timing.beat_denominator;
  }

  // Notes that a beat passes in this cycle. What is left of a cycle is not lost while beats follow
  // each other as fast as they may.
  void pass(const Timing& timing, uint64_t cycle, uint64_t address) {
    const uint64_t now = cycle * timing.beat_denominator;
    const uint64_t due = next_ + (misses(timing, address) ? timing.row_miss_cycles : 0) *
                                     uint64_t{timing.beat_denominator};
    next_ = (now < due + timing.beat_denominator ? due : now) + timing.beat_numerator;
    if (timing.row_bytes) row_ = address / timing.row_bytes;
  }

 private:
  static constexpr uint64_t kNoRow = ~uint64_t{0};

  bool misses(const Timing& timing, uint64_t address) const {
    return timing.row_bytes && address / timing.row_bytes != row_;
  }

  uint64_t next_ = 0, row_ = kNoRow;  // next_ in parts of a cycle, `beat_denominator` of them
};

#ifdef MATLOOM_TRACE_VCD
// A file of waveforms that takes no more once writing fails, as when the disk is full, where
// Verilator's own ends the process.
class WaveFile : public VerilatedVcdFile {
 public:
  ssize_t write(const char* data, ssize_t size) override {
    if (error) return size;
    const ssize_t taken = VerilatedVcdFile::write(data, size);
    if (taken >= 0 || errno == EAGAIN || errno == EINTR) return taken;
    error = errno;
    return size;
  }

  int error = 0;
};
#endif

class Simulation {
 public:
  Simulation(uint8_t* memory, uint64_t base, uint64_t bytes, uint32_t state_seed)
      : memory_(memory), base_(base), bytes_(bytes), top_(any_state(context_, state_seed)) {
    power_up();
    reset();
  }

  ~Simulation() {
    stop_trace();
    top_.final();
  }

  void reset() {
    top_.s_axil_awvalid = top_.s_axil_wvalid = top_.s_axil_arvalid = 0;
    top_.s_axil_bready = top_.s_axil_rready = 1;
    monitor_.rearm();
    top_.rst = 1;
    for (int i = 0; i < 4; ++i) step();
    // Nobody waits for what was asked before or during the reset.
    reads_.clear();
    writes_.clear();
    responses_.clear();
    read_shown_ = response_shown_ = false;
    top_.rst = 0;
    step();
  }

  uint32_t read32(uint32_t address, uint32_t* response) {
    top_.s_axil_araddr = address;
    top_.s_axil_arvalid = 1;
    for (int i = 0; i < kLiteTimeout; ++i) {
      settle();
      const bool taken = top_.s_axil_arvalid && top_.s_axil_arready;
      const bool answered = top_.s_axil_rvalid;
      const uint32_t data = top_.s_axil_rdata;
      const uint8_t resp = top_.s_axil_rresp;
      finish_cycle();
      if (taken) top_.s_axil_arvalid = 0;
      if (answered) {
        *response = resp;
        return data;
      }
    }
    *response = kDecodeError;
    return 0;
  }

  void write32(uint32_t address, uint32_t data, uint32_t* response) {
    top_.s_axil_awaddr = address;
    top_.s_axil_awvalid = top_.s_axil_wvalid = 1;
    top_.s_axil_wdata = data;
    top_.s_axil_wstrb = 15;
    for (int i = 0; i < kLiteTimeout; ++i) {
      settle();
      const bool aw = top_.s_axil_awvalid && top_.s_axil_awready;
      const bool w = top_.s_axil_wvalid && top_.s_axil_wready;
      const bool answered = top_.s_axil_bvalid;
      const uint8_t resp = top_.s_axil_bresp;
      finish_cycle();
      if (aw) top_.s_axil_awvalid = 0;
      if (w) top_.s_axil_wvalid = 0;
      if (answered) {
        *response = resp;
        return;
      }
    }
    *response = kDecodeError;
  }

  uint64_t run(uint64_t limit) {
    uint64_t count = 0;
    while (count < limit && !top_.irq && !monitor_.broken()) {
      step();
      ++count;
    }
    return count;
  }

  void set_timing(const Timing& timing) {
    timing_ = timing;
    random_.seed(timing.seed);
    read_pace_ = write_pace_ = Pace{};
  }

  uint64_t cycles() const { return cycle_; }
  uint64_t stray_accesses() const { return stray_; }

  void check(uint32_t burst_beats, uint32_t outstanding) {
    monitor_.open(burst_beats, outstanding, 0);
    checking_ = true;
  }
  const matloom::Breach* breach() const {
    return monitor_.broken() ? &monitor_.breach() : nullptr;
  }

  // Begins a digest of what both ports show from the next cycle on.
  void digest() {
    outputs_.open();
    digesting_ = true;
  }
  uint64_t digested() const { return outputs_.value(); }

  // Writes waveforms of the cycles from `first` until before `end`; returns whether it cannot.
  int start_trace(const char* path, uint64_t first, uint64_t end) {
#ifdef MATLOOM_TRACE
    context_.traceEverOn(true);
#ifdef MATLOOM_TRACE_VCD
    trace_ = new Trace(&wave_file_);
#else
    trace_ = new Trace;
#endif
    top_.trace(trace_, 99);
    trace_->open(path);
    traced_from_ = first;
    traced_to_ = end;
    return !trace_->isOpen();
#else
    (void)path, (void)first, (void)end;
    return -1;
#endif
  }

  // Returns the number of the system's error that ended the waveforms; 0 for none.
  int trace_error() const {
#ifdef MATLOOM_TRACE_VCD
    return wave_file_.error;
#else
    return 0;
#endif
  }

  void stop_trace() {
#ifdef MATLOOM_TRACE
    if (trace_) {
      trace_->close();
      delete trace_;
      trace_ = nullptr;
    }
#endif
  }

 private:
  static constexpr int kLiteTimeout = 1000;
  static constexpr uint32_t kBusBytes = MATLOOM_BUS_BYTES;

  // Lets registers and memories begin with random bits; to be called before the chip is made.
  static VerilatedContext* any_state(VerilatedContext& context, uint32_t seed) {
#ifdef MATLOOM_PARITY
    // Memories with parity are zeros at power-up, as a bitstream leaves them, unless asked for.
    if (!seed) return &context;
#endif
    context.randReset(2);
    // Zero would mean a seed of the simulator's own choice.
    context.randSeed(static_cast<int>(seed & 0x3fffffff) * 2 + 1);
    return &context;
  }

  // What the chip drives before its first reset has no meaning: nobody listens.
  void power_up() {
#ifdef MATLOOM_MUTANTS
    top_.mutsel = matloom::chosen_mutant;
#endif
    top_.m_axi_arready = top_.m_axi_awready = top_.m_axi_wready = 0;
    top_.m_axi_rvalid = top_.m_axi_bvalid = 0;
    top_.s_axil_awvalid = top_.s_axil_wvalid = top_.s_axil_arvalid = 0;
    // Inputs would begin with random bits, too, as if they were the chip's own.
    top_.m_axi_rid = top_.m_axi_rresp = top_.m_axi_rlast = top_.m_axi_bid = top_.m_axi_bresp = 0;
    std::memset(&top_.m_axi_rdata, 0, kBusBytes);
    top_.s_axil_awaddr = top_.s_axil_wdata = top_.s_axil_wstrb = top_.s_axil_araddr = 0;
    top_.s_axil_awprot = top_.s_axil_arprot = 0;
    top_.rst = 1;
    for (int i = 0; i < 4; ++i) {
      top_.clk = 0;
      top_.eval();
      top_.clk = 1;
      top_.eval();
    }
  }

  void step() {
    settle();
    finish_cycle();
  }

  bool stalled() { return timing_.stall_per_1024 && (random_() & 1023) < timing_.stall_per_1024; }

  // Drives the memory's side of the bus for this cycle and lets combinational paths settle.
  void settle() {
    const bool live = !timing_.frozen;
    top_.m_axi_arready = live && reads_.size() < timing_.max_outstanding && !stalled();
    top_.m_axi_awready = live && writes_.size() < timing_.max_outstanding && !stalled();
    top_.m_axi_wready = live && !writes_.empty() &&
                        write_pace_.ready(timing_, cycle_, writes_.front().address) && !stalled();
    // A valid once shown stays until it is taken, as the protocol demands.
    if (!read_shown_) {
      read_shown_ = live && !reads_.empty() && reads_.front().due <= cycle_ &&
                    read_pace_.ready(timing_, cycle_, reads_.front().address) && !stalled();
    }
    top_.m_axi_rvalid = read_shown_;
    if (read_shown_) drive_read();
    if (!response_shown_) {
      response_shown_ =
          live && !responses_.empty() && responses_.front().due <= cycle_ && !stalled();
    }
    top_.m_axi_bvalid = response_shown_;
    if (response_shown_) {
      top_.m_axi_bid = responses_.front().id;
      top_.m_axi_bresp = response(responses_.front().address);
    }
    top_.clk = 0;
    top_.eval();
#ifdef MATLOOM_TRACE
    if (traced()) trace_->dump(cycle_ * 10);
#endif
  }

  void finish_cycle() {
    if (checking_) monitor_.step(top_, cycle_);
    if (digesting_) outputs_.step(top_);
    const bool ar = top_.m_axi_arvalid && top_.m_axi_arready;
    const bool r = top_.m_axi_rvalid && top_.m_axi_rready;
    const bool aw = top_.m_axi_awvalid && top_.m_axi_awready;
    const bool w = top_.m_axi_wvalid && top_.m_axi_wready;
    const bool b = top_.m_axi_bvalid && top_.m_axi_bready;
    Burst read{}, write{};
    if (ar) read = burst(top_.m_axi_araddr, top_.m_axi_arlen, top_.m_axi_arid, true);
    if (aw) write = burst(top_.m_axi_awaddr, top_.m_axi_awlen, top_.m_axi_awid, false);
    if (w) take_write();
    if (r) {
      read_shown_ = false;
      read_pace_.pass(timing_, cycle_, reads_.front().address);
      reads_.front().address += kBusBytes;
      if (--reads_.front().beats == 0) reads_.pop_front();
    }
    if (b) {
      response_shown_ = false;
      responses_.pop_front();
    }
    if (ar) reads_.push_back(read);
    if (aw) writes_.push_back(write);
    top_.clk = 1;
    top_.eval();
#ifdef MATLOOM_TRACE
    if (traced()) trace_->dump(cycle_ * 10 + 5);
#endif
    ++cycle_;
  }

  Burst burst(uint64_t address, uint32_t length, uint8_t id, bool read) {
    uint64_t due = cycle_ + (read ? timing_.read_latency : timing_.write_latency);
    if (timing_.latency_jitter) due += random_() % timing_.latency_jitter;
    return Burst{address / kBusBytes * kBusBytes, length + 1, due, id};
  }

  bool inside(uint64_t address) const {
    return address >= base_ && address + kBusBytes <= base_ + bytes_;
  }

  uint8_t response(uint64_t address) const {
    if (!inside(address)) return kDecodeError;
    const bool broken = address >= timing_.error_first && address < timing_.error_end;
    return broken ? static_cast<uint8_t>(timing_.error_code) : kOkay;
  }

  void drive_read() {
    const Burst& front = reads_.front();
    if (inside(front.address)) {
      std::memcpy(&top_.m_axi_rdata, memory_ + (front.address - base_), kBusBytes);
    } else {
      std::memset(&top_.m_axi_rdata, 0, kBusBytes);
    }
    top_.m_axi_rid = front.id;
    top_.m_axi_rlast = front.beats == 1;
    top_.m_axi_rresp = response(front.address);
  }

  void take_write() {
    Burst& front = writes_.front();
    write_pace_.pass(timing_, cycle_, front.address);
    uint8_t bytes[kBusBytes];
    std::memcpy(bytes, &top_.m_axi_wdata, kBusBytes);
    const uint64_t strobes = top_.m_axi_wstrb;
    if (strobes && !inside(front.address)) ++stray_;
    if (inside(front.address)) {
      for (uint32_t i = 0; i < kBusBytes; ++i) {
        if (strobes >> i & 1) memory_[front.address - base_ + i] = bytes[i];
      }
    }
    if (--front.beats == 0) {
      responses_.push_back(Burst{front.address, 0, cycle_ + timing_.write_latency, front.id});
      writes_.pop_front();
    } else {
      front.address += kBusBytes;
    }
  }

  uint8_t* memory_;
  uint64_t base_, bytes_;
  VerilatedContext context_;
  Vmatloom top_;
  Timing timing_;
  std::mt19937_64 random_;
  std::deque<Burst> reads_, writes_, responses_;
  bool read_shown_ = false, response_shown_ = false;
  Pace read_pace_, write_pace_;
  uint64_t cycle_ = 0, stray_ = 0;
  matloom::Monitor<kBusBytes> monitor_;
  bool checking_ = false;
  matloom::OutputDigest<kBusBytes> outputs_;
  bool digesting_ = false;
#ifdef MATLOOM_TRACE
  bool traced() const { return trace_ && cycle_ >= traced_from_ && cycle_ < traced_to_; }

#ifdef MATLOOM_TRACE_VCD
  WaveFile wave_file_;
#endif
  Trace* trace_ = nullptr;
  uint64_t traced_from_ = 0, traced_to_ = 0;
#endif
};

}  // namespace

extern "C" {

#ifdef MATLOOM_MUTANTS
// Of a chip with many mutants: which of them those made from now on are; 0 for none.
void matloom_choose(uint32_t mutant) { matloom::chosen_mutant = mutant; }
#endif
void* matloom_create(uint8_t* memory, uint64_t base, uint64_t bytes, uint32_t state_seed) {
  return new Simulation(memory, base, bytes, state_seed);
}
void matloom_destroy(void* simulation) { delete static_cast<Simulation*>(simulation); }
void matloom_reset(void* simulation) { static_cast<Simulation*>(simulation)->reset(); }
uint32_t matloom_read32(void* simulation, uint32_t address, uint32_t* response) {
  return static_cast<Simulation*>(simulation)->read32(address, response);
}
void matloom_write32(void* simulation, uint32_t address, uint32_t data, uint32_t* response) {
  static_cast<Simulation*>(simulation)->write32(address, data, response);
}
uint64_t matloom_run(void* simulation, uint64_t limit) {
  return static_cast<Simulation*>(simulation)->run(limit);
}
uint64_t matloom_cycles(void* simulation) {
  return static_cast<Simulation*>(simulation)->cycles();
}
uint64_t matloom_stray_accesses(void* simulation) {
  return static_cast<Simulation*>(simulation)->stray_accesses();
}
void matloom_check(void* simulation, uint32_t burst_beats, uint32_t outstanding) {
  static_cast<Simulation*>(simulation)->check(burst_beats, outstanding);
}
int matloom_breach(void* simulation, matloom::Breach* breach) {
  const matloom::Breach* found = static_cast<Simulation*>(simulation)->breach();
  if (found) *breach = *found;
  return found != nullptr;
}
void matloom_timing(void* simulation, uint32_t read_latency, uint32_t write_latency,
                    uint32_t latency_jitter, uint32_t max_outstanding, uint32_t stall_per_1024,
                    uint32_t beat_numerator, uint32_t beat_denominator, uint32_t row_bytes,
                    uint32_t row_miss_cycles, uint64_t seed, uint64_t error_first,
                    uint64_t error_end, uint32_t error_code, uint32_t frozen) {
  static_cast<Simulation*>(simulation)
      ->set_timing({read_latency, write_latency, latency_jitter, max_outstanding, stall_per_1024,
                    beat_numerator, beat_denominator, row_bytes, row_miss_cycles, seed,
                    error_first, error_end, error_code, frozen});
}
void matloom_digest(void* simulation) { static_cast<Simulation*>(simulation)->digest(); }
uint64_t matloom_digested(void* simulation) {
  return static_cast<Simulation*>(simulation)->digested();
}
int matloom_trace(void* simulation, const char* path, uint64_t first, uint64_t end) {
  return static_cast<Simulation*>(simulation)->start_trace(path, first, end);
}
int matloom_trace_error(void* simulation) {
  return static_cast<Simulation*>(simulation)->trace_error();
}
void matloom_trace_end(void* simulation) {
  static_cast<Simulation*>(simulation)->stop_trace();
}
}
