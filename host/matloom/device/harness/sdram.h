// A single-data-rate SDRAM at its pins: what it stores and returns, and every rule of its commands.
//
// `step` is one rising edge of its clock, with the pins as they stand; it returns what the data
// pins carry until the next edge. The first rule broken is kept with its edge (`breach`), and the
// model goes on. Pins that are low when asserted are given as 1 when asserted. Distances are in
// cycles; nothing here knows a controller.

#ifndef MATLOOM_SDRAM_H
#define MATLOOM_SDRAM_H

#include <cstdint>
#include <cstring>
#include <vector>

namespace matloom {

enum SdramRule : uint32_t {
  kSdramNone,
  kSdramPowerUp,       // a command before the time after power-up is over
  kSdramInitialise,    // a row, or the mode, before what has to come before
  kSdramMode,          // a mode that is reserved, or a CAS latency too short for the clock
  kSdramTrcd,          // ACTIVATE to READ or WRITE
  kSdramTrp,           // PRECHARGE to ACTIVATE, REFRESH or MODE
  kSdramTras,          // ACTIVATE to PRECHARGE
  kSdramTrc,           // ACTIVATE to ACTIVATE, one bank
  kSdramTrfc,          // REFRESH to the next command
  kSdramTwr,           // last data of a WRITE to PRECHARGE
  kSdramTrrd,          // ACTIVATE to ACTIVATE, two banks
  kSdramTmrd,          // MODE to the next command
  kSdramRefresh,       // two refreshes are owed
  kSdramClosed,        // READ or WRITE where no row is open
  kSdramOpen,          // ACTIVATE, REFRESH or MODE where a row is open
  kSdramAddress,       // a row, column or bank that is not there
  kSdramCut,           // a burst is ended before its last column
  kSdramContention,    // both sides drive the data pins, or without an idle cycle between them
  kSdramUndriven,      // nobody drives the data of a WRITE
  kSdramUnwritten,     // READ of a byte that was never written (where that is refused)
  kSdramCommand,       // a command this model does not know, or a clock that is not enabled
  kSdramMask,          // a byte of a WRITE is masked where the board has wired the masks low
  kSdramRules,
};

struct SdramShape {
  uint32_t data_bytes, banks, rows, columns;
  uint32_t cas_latency, rcd, rp, ras, rc, rfc, wr, rrd, mrd, refresh, power_up, initial_refreshes;
  uint32_t refuse_unwritten, maskless;
};

struct SdramPins {
  uint32_t clk_en, cs, ras, cas, we, ba, a, dqm;
  uint32_t drive, dq;  // the controller drives the data pins, and with what
};

class Sdram {
 public:
  explicit Sdram(const SdramShape& shape) : shape_(shape) { power_up(); }

  // Power goes off and on: nothing is stored, nothing is open, no rule is broken yet.
  void power_up() {
    edge_ = breach_edge_ = 0;
    breach_ = kSdramNone;
    rows_.assign(size_t{shape_.banks} * shape_.rows, {});
    for (Bank& bank : banks_) bank = Bank{};
    burst_ = Burst{};
    initialised_ = precharged_ = false;
    refreshed_ = 0;
    last_refresh_ = last_mode_ = last_activate_ = kNever;
    for (Output& output : outputs_) output = Output{};
    was_driving_ = false;
  }

  uint32_t step(const SdramPins& pins) {
    if (!pins.clk_en) note(kSdramCommand);
    contention(pins);
    command(pins);
    advance(pins);
    // What comes at the next edge; a mask counts two edges after it was seen.
    outputs_[(edge_ + 2) % kAhead].mask = shape_.maskless ? 0 : pins.dqm;
    if (initialised_ && edge_ - start_ >= (done_ + 2) * uint64_t{shape_.refresh}) {
      note(kSdramRefresh);
    }
    outputs_[edge_ % kAhead] = Output{};
    ++edge_;
    const Output& next = outputs_[edge_ % kAhead];
    uint32_t value = 0;
    for (uint32_t i = 0; i < shape_.data_bytes; ++i) {
      const bool shown = next.driven && !(next.mask >> i & 1);
      value |= uint32_t{shown ? uint8_t(next.data >> 8 * i) : noise(edge_ * 4 + i)} << 8 * i;
    }
    return value;
  }

  // Whoever drives the pins may let a burst close its row (A10); else that breaks a rule.
  void allow_auto_precharge() { auto_precharge_ = true; }

  uint32_t breach() const { return breach_; }
  uint64_t breach_edge() const { return breach_edge_; }
  uint64_t refreshes() const { return done_; }
  uint64_t columns() const { return columns_; }
  uint64_t activations() const { return activations_; }
  uint64_t written() const { return written_; }  // bytes, by WRITE

  // Memory in the order row, bank, column, byte; to fill and to look at without the pins.
  void write(uint64_t address, const uint8_t* data, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) {
      Row& row = row_at((address + i) / row_bytes());
      row.data[(address + i) % row_bytes()] = data[i];
      row.written[(address + i) % row_bytes()] = 1;
    }
  }
  void read(uint64_t address, uint8_t* data, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) {
      data[i] = row_at((address + i) / row_bytes()).data[(address + i) % row_bytes()];
    }
  }

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};
  static constexpr uint32_t kMostBanks = 4, kAhead = 32;

  struct Row {
    std::vector<uint8_t> data, written;
  };
  struct Bank {
    bool open = false;
    uint32_t row = 0;
    uint64_t activated = kNever, precharged = kNever, last_data = kNever, read_end = kNever;
  };
  struct Burst {
    bool active = false, write = false, closes = false;
    uint32_t bank = 0, row = 0, column = 0, index = 0;
  };
  struct Output {
    bool driven = false;
    uint32_t data = 0, mask = 0;
  };

  void note(uint32_t rule) {
    if (breach_ != kSdramNone) return;
    breach_ = rule;
    breach_edge_ = edge_;
  }

  // Whether fewer than `least` cycles have gone since an edge, which may be one to come.
  bool early(uint64_t since, uint64_t least) const {
    return since != kNever && edge_ < since + least;
  }
  void at_least(uint64_t since, uint64_t least, uint32_t rule) {
    if (early(since, least)) note(rule);
  }

  static uint8_t noise(uint64_t key) {
    key = (key + 1) * 0x9e3779b97f4a7c15u;
    return uint8_t(key >> 56 ^ key >> 24);
  }

  uint64_t row_bytes() const { return uint64_t{shape_.columns} * shape_.data_bytes; }

  Row& row_at(uint64_t index) {
    Row& row = rows_[index % rows_.size()];
    if (row.data.empty()) {
      row.data.resize(row_bytes());
      row.written.assign(row_bytes(), 0);
      for (uint64_t i = 0; i < row_bytes(); ++i) row.data[i] = noise(index * row_bytes() + i);
    }
    return row;
  }

  // Data at this edge left the chip in the cycle before; the pins need one more to come to rest.
  void contention(const SdramPins& pins) {
    const bool driving = outputs_[edge_ % kAhead].driven;
    if (pins.drive && (driving || was_driving_)) note(kSdramContention);
    was_driving_ = driving;
  }

  void command(const SdramPins& pins) {
    const uint32_t code = pins.cs ? pins.ras << 2 | pins.cas << 1 | pins.we : 0;
    if (code == 0) return;
    if (edge_ < shape_.power_up) note(kSdramPowerUp);
    at_least(last_mode_, shape_.mrd, kSdramTmrd);
    at_least(last_refresh_, shape_.rfc, kSdramTrfc);
    if (pins.ba >= shape_.banks) return note(kSdramAddress);
    switch (code) {
      case 4: return activate(pins);
      case 2: return column(pins, false);
      case 3: return column(pins, true);
      case 5: return precharge(pins);
      case 6: return refresh();
      case 7: return mode(pins);
      default: return note(kSdramCommand);
    }
  }

  void activate(const SdramPins& pins) {
    Bank& bank = banks_[pins.ba];
    if (!initialised_) note(kSdramInitialise);
    if (bank.open) note(kSdramOpen);
    if (pins.a >= shape_.rows) return note(kSdramAddress);
    at_least(bank.precharged, shape_.rp, kSdramTrp);
    at_least(bank.activated, shape_.rc, kSdramTrc);
    at_least(last_activate_, shape_.rrd, kSdramTrrd);
    bank.open = true;
    bank.row = pins.a;
    bank.activated = last_activate_ = edge_;
    bank.last_data = bank.read_end = kNever;
    ++activations_;
  }

  void column(const SdramPins& pins, bool write) {
    Bank& bank = banks_[pins.ba];
    const uint32_t place = (pins.a & 0x3ff) | (pins.a >> 1 & ~uint32_t{0x3ff});
    if (!bank.open) return note(kSdramClosed);
    const bool closes = pins.a >> 10 & 1;
    if (closes && !auto_precharge_) note(kSdramCommand);
    if (place >= shape_.columns) return note(kSdramAddress);
    at_least(bank.activated, shape_.rcd, kSdramTrcd);
    if (burst_.active) note(kSdramCut);
    burst_ = Burst{true, write, closes, pins.ba, bank.row, place, 0};
  }

  void precharge(const SdramPins& pins) {
    const bool all = pins.a >> 10 & 1;
    for (uint32_t i = 0; i < shape_.banks; ++i) {
      if (!all && i != pins.ba) continue;
      Bank& bank = banks_[i];
      if (bank.open) {
        at_least(bank.activated, shape_.ras, kSdramTras);
        at_least(bank.last_data, shape_.wr, kSdramTwr);
        // CAS latency + burst - 2 cycles after its READ, and not within a burst.
        at_least(bank.read_end, cas_latency_ - 1, kSdramCut);
        if (burst_.active && burst_.bank == i) note(kSdramCut);
      }
      if (bank.open || !initialised_) bank.precharged = edge_;
      bank.open = false;
    }
    precharged_ |= all;
  }

  void all_closed() {
    for (uint32_t i = 0; i < shape_.banks; ++i) {
      if (banks_[i].open) note(kSdramOpen);
      at_least(banks_[i].precharged, shape_.rp, kSdramTrp);
    }
  }

  void refresh() {
    all_closed();
    if (!precharged_) note(kSdramInitialise);
    last_refresh_ = edge_;
    ++refreshed_;
    ++done_;
  }

  void mode(const SdramPins& pins) {
    all_closed();
    if (refreshed_ < shape_.initial_refreshes) note(kSdramInitialise);
    const uint32_t length = pins.a & 7, latency = pins.a >> 4 & 7;
    const bool plain = !(pins.a & ~uint32_t{0x77}) && !pins.ba;
    if (!plain || length > 3 || latency < shape_.cas_latency || latency > 3) note(kSdramMode);
    burst_length_ = 1u << (length & 3);
    cas_latency_ = latency < 2 ? 2 : latency;
    last_mode_ = start_ = edge_;
    done_ = 0;
    initialised_ = true;
  }

  // One column of the burst under way: a WRITE takes it now, a READ returns it later.
  void advance(const SdramPins& pins) {
    if (!burst_.active) return;
    const uint32_t low = burst_length_ - 1;
    const uint32_t place = (burst_.column & ~low) | ((burst_.column + burst_.index) & low);
    Row& row = row_at(uint64_t{burst_.row} * shape_.banks + burst_.bank);
    const uint64_t first = uint64_t{place} * shape_.data_bytes;
    if (burst_.write) {
      take(pins, row, first);
    } else {
      give(row, first);
    }
    ++columns_;
    if (++burst_.index == burst_length_) {
      burst_.active = false;
      if (burst_.closes) close(banks_[burst_.bank]);
    }
  }

  // The precharge after a burst that asked for it: CAS latency - 1 cycles before the last word of
  // a READ, and tWR after that of a WRITE.
  void close(Bank& bank) {
    bank.precharged = burst_.write ? bank.last_data + shape_.wr : bank.read_end + 1;
    if (bank.precharged < bank.activated + shape_.ras) note(kSdramTras);
    bank.open = false;
  }

  void take(const SdramPins& pins, Row& row, uint64_t first) {
    if (!pins.drive) note(kSdramUndriven);
    if (shape_.maskless && pins.dqm) note(kSdramMask);
    banks_[burst_.bank].last_data = edge_;
    for (uint32_t i = 0; i < shape_.data_bytes; ++i) {
      if (!shape_.maskless && pins.dqm >> i & 1) continue;
      ++written_;
      row.data[first + i] = uint8_t(pins.dq >> 8 * i);
      row.written[first + i] = 1;
    }
  }

  void give(const Row& row, uint64_t first) {
    Output& output = outputs_[(edge_ + cas_latency_) % kAhead];
    output.driven = true;
    output.data = 0;
    banks_[burst_.bank].read_end = edge_;
    for (uint32_t i = 0; i < shape_.data_bytes; ++i) {
      output.data |= uint32_t{row.data[first + i]} << 8 * i;
      if (shape_.refuse_unwritten && !row.written[first + i]) note(kSdramUnwritten);
    }
  }

  SdramShape shape_;
  uint64_t edge_ = 0;
  std::vector<Row> rows_;
  Bank banks_[kMostBanks];
  Burst burst_;
  Output outputs_[kAhead];
  bool initialised_ = false, precharged_ = false, was_driving_ = false, auto_precharge_ = false;
  uint32_t burst_length_ = 1, cas_latency_ = 3, refreshed_ = 0;
  uint64_t last_refresh_ = kNever, last_mode_ = kNever, last_activate_ = kNever, start_ = 0;
  uint64_t done_ = 0, columns_ = 0, activations_ = 0, written_ = 0;
  uint32_t breach_ = kSdramNone;
  uint64_t breach_edge_ = 0;
};

}  // namespace matloom

#endif
