// Watches both ports of the chip in every cycle; keeps the first breach of a bus rule.
//
// The rules are those of matloom.arch.bus_rules. `Ports` is any structure with the chip's signals
// under their flat names: the Verilated chip, or a script's in a test.

#ifndef MATLOOM_MONITOR_H
#define MATLOOM_MONITOR_H

#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>

#include "bus_rules.h"

namespace matloom {

struct Breach {
  uint32_t rule, channel;
  uint64_t cycle, value, limit;
};

template <uint32_t kBusBytes>
class Monitor {
 public:
  // Begins to watch, as if after a reset; rules with a bit in `ignored` are not judged.
  void open(uint32_t burst_beats, uint32_t outstanding, uint64_t ignored) {
    burst_beats_ = burst_beats;
    outstanding_ = outstanding;
    ignored_ = ignored;
    rearm();
    reset_cycles_ = 0;
    forget();
  }

  // Forgets a breach: nothing is judged after one.
  void rearm() { broken_ = false; }

  bool broken() const { return broken_; }
  const Breach& breach() const { return breach_; }

  // Looks at the signals of one cycle, as they are at its clock edge.
  template <typename Ports>
  void step(const Ports& p, uint64_t cycle) {
    if (broken_) return;
    cycle_ = cycle;
    if (p.rst) {
      watch_reset(p);
      return;
    }
    reset_cycles_ = 0;
    watch_stability(p);
    // What is answered was asked for in an earlier cycle.
    const uint32_t reads = on_way_[0].size() + on_way_[1].size();
    const uint32_t writes = unanswered_;
    if (p.m_axi_rvalid && p.m_axi_rready) take_read(p);
    if (p.m_axi_bvalid && p.m_axi_bready) take_response(p);
    if (p.m_axi_arvalid && p.m_axi_arready) take_read_address(p, reads + 1);
    if (p.m_axi_awvalid && p.m_axi_awready) take_write_address(p, writes + 1);
    if (p.m_axi_wvalid && p.m_axi_wready) take_beat({p.m_axi_wstrb, p.m_axi_wlast != 0});
    watch_registers(p);
  }

 private:
  // Data, and all else of a payload: every bit that must stay.
  static constexpr uint32_t kDataWords = (kBusBytes + 7) / 8, kWords = kDataWords + 2;
  static constexpr uint64_t kIncr = 1, kOkay = 0, kExclusiveOkay = 1, kCache = 3, kPage = 4096;
  static constexpr uint64_t kSize = __builtin_ctz(kBusBytes);

  struct Held {
    bool waits = false;
    uint64_t word[kWords] = {};
  };
  struct Write {
    uint64_t address;
    uint32_t beats, sent;
  };
  struct Beat {
    uint64_t strobes;
    bool last;
  };

  void require(bool holds, Rule rule, Channel channel, uint64_t value, uint64_t limit) {
    if (holds || broken_ || (ignored_ >> rule & 1)) return;
    broken_ = true;
    breach_ = {rule, channel, cycle_, value, limit};
  }

  void forget() {
    for (Held& held : held_) held.waits = false;
    for (auto& queue : on_way_) queue.clear();
    owed_.clear();
    early_.clear();
    unanswered_ = answerable_ = 0;
    addresses_.clear();
    words_.clear();
    unsure_.clear();
    lite_reads_ = lite_writes_ = 0;
    std::memset(registers_, 0, sizeof registers_);
  }

  template <typename Ports>
  void watch_reset(const Ports& p) {
    forget();
    ++reset_cycles_;
    const bool valid[] = {p.m_axi_arvalid != 0, p.m_axi_awvalid != 0, p.m_axi_wvalid != 0,
                          p.s_axil_rvalid != 0, p.s_axil_bvalid != 0};
    const Channel channels[] = {kMAxiAr, kMAxiAw, kMAxiW, kSAxilR, kSAxilB};
    for (int i = 0; i < 5; ++i) {
      require(!valid[i], kResetQuiet, channels[i], reset_cycles_, 0);
    }
  }

  template <typename Ports>
  void watch_stability(const Ports& p) {
    hold(kMAxiAr, p.m_axi_arvalid, p.m_axi_arready, [&](uint64_t* word) {
      word[0] = address(p.m_axi_araddr, p.m_axi_arlen, p.m_axi_arsize, p.m_axi_arburst, p.m_axi_arid,
                        attributes(p.m_axi_arlock, p.m_axi_arcache, p.m_axi_arprot, p.m_axi_arqos));
    });
    hold(kMAxiAw, p.m_axi_awvalid, p.m_axi_awready, [&](uint64_t* word) {
      word[0] = address(p.m_axi_awaddr, p.m_axi_awlen, p.m_axi_awsize, p.m_axi_awburst, p.m_axi_awid,
                        attributes(p.m_axi_awlock, p.m_axi_awcache, p.m_axi_awprot, p.m_axi_awqos));
    });
    hold(kMAxiW, p.m_axi_wvalid, p.m_axi_wready, [&](uint64_t* word) {
      std::memcpy(word, &p.m_axi_wdata, kBusBytes);
      word[kDataWords] = p.m_axi_wstrb;
      word[kDataWords + 1] = p.m_axi_wlast;
    });
    hold(kMAxiR, p.m_axi_rvalid, p.m_axi_rready, [&](uint64_t* word) {
      std::memcpy(word + 1, &p.m_axi_rdata, kBusBytes);
      word[0] = p.m_axi_rid | uint64_t{p.m_axi_rresp} << 8 | uint64_t{p.m_axi_rlast} << 16;
    });
    hold(kMAxiB, p.m_axi_bvalid, p.m_axi_bready,
         [&](uint64_t* word) { word[0] = p.m_axi_bid | uint64_t{p.m_axi_bresp} << 8; });
    hold(kSAxilAr, p.s_axil_arvalid, p.s_axil_arready,
         [&](uint64_t* word) { word[0] = p.s_axil_araddr | uint64_t{p.s_axil_arprot} << 32; });
    hold(kSAxilAw, p.s_axil_awvalid, p.s_axil_awready,
         [&](uint64_t* word) { word[0] = p.s_axil_awaddr | uint64_t{p.s_axil_awprot} << 32; });
    hold(kSAxilW, p.s_axil_wvalid, p.s_axil_wready,
         [&](uint64_t* word) { word[0] = p.s_axil_wdata | uint64_t{p.s_axil_wstrb} << 32; });
    hold(kSAxilR, p.s_axil_rvalid, p.s_axil_rready,
         [&](uint64_t* word) { word[0] = p.s_axil_rdata | uint64_t{p.s_axil_rresp} << 32; });
    hold(kSAxilB, p.s_axil_bvalid, p.s_axil_bready,
         [&](uint64_t* word) { word[0] = p.s_axil_bresp; });
  }

  template <typename Fill>
  void hold(Channel channel, bool valid, bool ready, Fill fill) {
    Held& held = held_[channel];
    if (!valid) {
      require(!held.waits, kValidStays, channel, 0, held.word[0]);
      held.waits = false;
      return;
    }
    if (!held.waits && ready) return;
    uint64_t word[kWords] = {};
    fill(word);
    for (uint32_t i = 0; held.waits && i < kWords; ++i) {
      require(word[i] == held.word[i], kPayloadStays, channel, word[i], held.word[i]);
    }
    held.waits = !ready;
    std::memcpy(held.word, word, sizeof word);
  }

  static uint64_t attributes(uint64_t lock, uint64_t cache, uint64_t prot, uint64_t qos) {
    return cache | lock << 4 | prot << 5 | qos << 8;
  }

  static uint64_t address(uint64_t address, uint64_t length, uint64_t size, uint64_t kind,
                          uint64_t id, uint64_t attributes) {
    return address | length << 32 | size << 40 | kind << 43 | id << 45 | attributes << 46;
  }

  // Judges what both directions have in common.
  void watch_burst(Channel channel, uint64_t address, uint64_t beats, uint64_t size, uint64_t kind,
                   uint64_t attributes, uint32_t on_way) {
    const uint64_t end = address / kBusBytes * kBusBytes + beats * kBusBytes;
    require(kind == kIncr, kBurstKind, channel, kind, kIncr);
    require(size == kSize, kBurstSize, channel, size, kSize);
    require(attributes == kCache, kBurstAttributes, channel, attributes, kCache);
    require(beats <= burst_beats_, kBurstLength, channel, beats, burst_beats_);
    require(address % kBusBytes == 0, kBurstAligned, channel, address, kBusBytes);
    require(address / kPage == (end - 1) / kPage, kBurstPage, channel, address, end);
    require(on_way <= outstanding_, kOutstanding, channel, on_way, outstanding_);
  }

  uint64_t base(uint32_t region) const { return registers_[2 * region]; }
  uint64_t end(uint32_t region) const { return base(region) + registers_[2 * region + 1]; }

  // Whether whole beats lie in a region, which may begin and end inside one.
  bool inside(uint32_t region, uint64_t first, uint64_t last_end) const {
    const uint64_t from = base(region) / kBusBytes * kBusBytes;
    const uint64_t to = (end(region) + kBusBytes - 1) / kBusBytes * kBusBytes;
    return end(region) > base(region) && first >= from && last_end <= to;
  }

  template <typename Ports>
  void take_read_address(const Ports& p, uint32_t on_way) {
    const uint64_t address = p.m_axi_araddr, beats = p.m_axi_arlen + 1;
    const uint64_t end = address + beats * kBusBytes;
    watch_burst(kMAxiAr, address, beats, p.m_axi_arsize, p.m_axi_arburst,
                attributes(p.m_axi_arlock, p.m_axi_arcache, p.m_axi_arprot, p.m_axi_arqos), on_way);
    bool found = inside(kProgram, address, end);
    for (uint32_t region = 0; p.m_axi_arid && region < kRegions; ++region) {
      found = found || inside(region, address, end);
    }
    require(found, kReadWindow, kMAxiAr, address, end);
    on_way_[p.m_axi_arid].push_back(beats);
  }

  template <typename Ports>
  void take_read(const Ports& p) {
    std::deque<uint32_t>& bursts = on_way_[p.m_axi_rid];
    require(p.m_axi_rresp != kExclusiveOkay, kResponseCode, kMAxiR, p.m_axi_rresp, 0);
    require(!bursts.empty(), kReadOwed, kMAxiR, p.m_axi_rid, 0);
    if (bursts.empty()) return;
    const bool last = bursts.front() == 1;
    require((p.m_axi_rlast != 0) == last, kReadLast, kMAxiR, p.m_axi_rlast, last);
    if (--bursts.front() == 0) bursts.pop_front();
  }

  template <typename Ports>
  void take_write_address(const Ports& p, uint32_t on_way) {
    const uint64_t address = p.m_axi_awaddr;
    const uint32_t beats = p.m_axi_awlen + 1;
    const uint64_t end = address + uint64_t{beats} * kBusBytes;
    watch_burst(kMAxiAw, address, beats, p.m_axi_awsize, p.m_axi_awburst,
                attributes(p.m_axi_awlock, p.m_axi_awcache, p.m_axi_awprot, p.m_axi_awqos), on_way);
    require(p.m_axi_awid == 0, kBurstId, kMAxiAw, p.m_axi_awid, 0);
    bool found = false;
    for (uint32_t region = 0; region < kRegions; ++region) {
      found = found || (kWindows[region].writable && inside(region, address, end));
    }
    require(found, kWriteWindow, kMAxiAw, address, end);
    ++unanswered_;
    owed_.push_back({address / kBusBytes * kBusBytes, beats, 0});
    // Data may precede their address.
    while (!owed_.empty() && !early_.empty()) {
      const Beat beat = early_.front();
      early_.pop_front();
      take_owed(beat);
    }
  }

  void take_beat(Beat beat) {
    if (owed_.empty()) {
      early_.push_back(beat);
    } else {
      take_owed(beat);
    }
  }

  void take_owed(Beat beat) {
    Write& write = owed_.front();
    const uint64_t at = write.address + uint64_t{write.sent} * kBusBytes;
    if (beat.strobes) {
      const uint64_t first = at + __builtin_ctzll(beat.strobes);
      const uint64_t last = at + 63 - __builtin_clzll(beat.strobes);
      require(written(first), kStrobeWindow, kMAxiW, first, 0);
      require(written(last), kStrobeWindow, kMAxiW, last, 0);
    }
    ++write.sent;
    require(beat.last == (write.sent == write.beats), kWriteLast, kMAxiW, write.sent, write.beats);
    if (write.sent == write.beats) {
      ++answerable_;
      owed_.pop_front();
    }
  }

  bool written(uint64_t address) const {
    for (uint32_t region = 0; region < kRegions; ++region) {
      if (kWindows[region].writable && address >= base(region) && address < end(region)) return true;
    }
    return false;
  }

  template <typename Ports>
  void take_response(const Ports& p) {
    require(p.m_axi_bresp != kExclusiveOkay, kResponseCode, kMAxiB, p.m_axi_bresp, 0);
    require(p.m_axi_bid == 0, kResponseId, kMAxiB, p.m_axi_bid, 0);
    require(answerable_ != 0, kResponseOwed, kMAxiB, 0, answerable_);
    if (answerable_) {
      --answerable_;
      --unanswered_;
    }
  }

  // Judges answers of the registers, and follows what is written to those that place regions.
  template <typename Ports>
  void watch_registers(const Ports& p) {
    if (p.s_axil_rvalid && p.s_axil_rready) {
      answer(kSAxilR, lite_reads_, p.s_axil_rresp);
    }
    if (p.s_axil_bvalid && p.s_axil_bready) {
      answer(kSAxilB, lite_writes_, p.s_axil_bresp);
      // A register that refuses a write, as those of regions do while the engine runs, keeps its value.
      if (!unsure_.empty()) {
        if (p.s_axil_bresp == kOkay) write_register(unsure_.front().first, unsure_.front().second);
        unsure_.pop_front();
      }
    }
    if (p.s_axil_arvalid && p.s_axil_arready) ++lite_reads_;
    if (p.s_axil_awvalid && p.s_axil_awready) addresses_.push_back(p.s_axil_awaddr);
    if (p.s_axil_wvalid && p.s_axil_wready) {
      words_.push_back({uint32_t(p.s_axil_wdata), uint32_t(p.s_axil_wstrb)});
    }
    while (!addresses_.empty() && !words_.empty()) {
      unsure_.emplace_back(addresses_.front(), words_.front());
      addresses_.pop_front();
      words_.pop_front();
      ++lite_writes_;
    }
  }

  void answer(Channel channel, uint32_t& owed, uint64_t code) {
    require(code != kExclusiveOkay, kResponseCode, channel, code, 0);
    require(owed != 0, kAnswerOwed, channel, 0, owed);
    if (owed) --owed;
  }

  struct Word {
    uint32_t data, strobes;
  };

  void write_register(uint32_t address, Word word) {
    for (uint32_t region = 0; region < kRegions; ++region) {
      const uint32_t offsets[] = {kWindows[region].base_offset, kWindows[region].bytes_offset};
      for (int kind = 0; kind < 2; ++kind) {
        if (address / 4 != offsets[kind] / 4) continue;
        for (int byte = 0; byte < 4; ++byte) {
          const uint32_t mask = 0xFFu << 8 * byte;
          uint32_t& stored = registers_[2 * region + kind];
          if (word.strobes >> byte & 1) stored = (stored & ~mask) | (word.data & mask);
        }
      }
    }
  }

  uint32_t burst_beats_ = 0, outstanding_ = 0;
  uint64_t ignored_ = 0, cycle_ = 0, reset_cycles_ = 0;
  bool broken_ = false;
  Breach breach_{};
  Held held_[kChannels];
  std::deque<uint32_t> on_way_[2];  // beats that each read still owes, by ID
  std::deque<Write> owed_;          // writes that miss beats
  std::deque<Beat> early_;          // beats before their address
  uint32_t unanswered_ = 0, answerable_ = 0;
  std::deque<uint32_t> addresses_;
  std::deque<Word> words_;
  std::deque<std::pair<uint32_t, Word>> unsure_;  // writes that await their answer
  uint32_t lite_reads_ = 0, lite_writes_ = 0;
  uint32_t registers_[2 * kRegions] = {};  // base and size of each region
};

}  // namespace matloom

#endif
