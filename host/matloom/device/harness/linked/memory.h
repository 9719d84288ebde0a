// External memory of a simulated chip on its AXI4 port: a fixed latency, a beat per cycle, random stalls.

#ifndef MATLOOM_MEMORY_H
#define MATLOOM_MEMORY_H

#include <cstdint>
#include <cstring>
#include <deque>
#include <random>

namespace matloom {

template <class Top, uint32_t kBusBytes>
class Memory {
 public:
  Memory(uint8_t* bytes, uint64_t base, uint64_t size) : bytes_(bytes), base_(base), size_(size) {}

  uint32_t latency = 32, stall_per_1024 = 0;
  bool frozen = false;        // answers nothing
  uint64_t writes = 0;        // beats written so far
  static constexpr uint8_t kOkay = 0, kDecodeError = 3;

  // Drives the memory's side of the bus for this cycle.
  void settle(Top& top) {
    top.m_axi_arready = ready();
    top.m_axi_awready = ready();
    top.m_axi_wready = !writes_.empty() && ready();
    // A valid once shown stays until it is taken, as the protocol demands.
    if (!read_shown_) read_shown_ = !reads_.empty() && reads_.front().due <= cycle_ && ready();
    if (!response_shown_) {
      response_shown_ = !responses_.empty() && responses_.front().due <= cycle_ && ready();
    }
    top.m_axi_rvalid = read_shown_;
    top.m_axi_bvalid = response_shown_;
    if (read_shown_) show_read(top);
    if (response_shown_) {
      top.m_axi_bid = responses_.front().id;
      top.m_axi_bresp = response(responses_.front().address);
    }
  }

  // Takes what passes in this cycle; to be called before the clock rises.
  void finish(Top& top) {
    if (top.m_axi_rvalid && top.m_axi_rready) {
      read_shown_ = false;
      reads_.front().address += kBusBytes;
      if (--reads_.front().beats == 0) reads_.pop_front();
    }
    if (top.m_axi_bvalid && top.m_axi_bready) {
      response_shown_ = false;
      responses_.pop_front();
    }
    if (top.m_axi_wvalid && top.m_axi_wready) take_write(top);
    if (top.m_axi_arvalid && top.m_axi_arready) {
      reads_.push_back(burst(top.m_axi_araddr, top.m_axi_arlen, top.m_axi_arid));
    }
    if (top.m_axi_awvalid && top.m_axi_awready) {
      writes_.push_back(burst(top.m_axi_awaddr, top.m_axi_awlen, top.m_axi_awid));
    }
    ++cycle_;
  }

  // Nobody waits for what was asked before a reset.
  void reset() {
    reads_.clear();
    writes_.clear();
    responses_.clear();
    read_shown_ = response_shown_ = false;
  }

 private:
  struct Burst {
    uint64_t address;
    uint32_t beats;
    uint64_t due;
    uint8_t id;
  };

  bool ready() {
    return !frozen && (!stall_per_1024 || (random_() & 1023) >= stall_per_1024);
  }

  Burst burst(uint64_t address, uint32_t length, uint8_t id) const {
    return Burst{address / kBusBytes * kBusBytes, length + 1, cycle_ + latency, id};
  }

  bool inside(uint64_t address) const {
    return address >= base_ && address + kBusBytes <= base_ + size_;
  }

  uint8_t response(uint64_t address) const { return inside(address) ? kOkay : kDecodeError; }

  void show_read(Top& top) {
    const Burst& front = reads_.front();
    std::memset(&top.m_axi_rdata, 0, kBusBytes);
    if (inside(front.address)) {
      std::memcpy(&top.m_axi_rdata, bytes_ + (front.address - base_), kBusBytes);
    }
    top.m_axi_rid = front.id;
    top.m_axi_rlast = front.beats == 1;
    top.m_axi_rresp = response(front.address);
  }

  void take_write(Top& top) {
    Burst& front = writes_.front();
    uint8_t data[kBusBytes];
    std::memcpy(data, &top.m_axi_wdata, kBusBytes);
    const uint64_t strobes = top.m_axi_wstrb;
    for (uint32_t i = 0; i < kBusBytes && inside(front.address); ++i) {
      if (strobes >> i & 1) bytes_[front.address - base_ + i] = data[i];
    }
    ++writes;
    if (--front.beats == 0) {
      responses_.push_back(Burst{front.address, 0, cycle_ + latency / 4, front.id});
      writes_.pop_front();
    } else {
      front.address += kBusBytes;
    }
  }

  uint8_t* bytes_;
  uint64_t base_, size_, cycle_ = 0;
  std::deque<Burst> reads_, writes_, responses_;
  bool read_shown_ = false, response_shown_ = false;
  std::mt19937 random_;
};

}  // namespace matloom

#endif
