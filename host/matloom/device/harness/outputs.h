// Digests what the chip shows at both ports, cycle by cycle.
//
// Payloads count while they are valid, data while they are strobed: nobody may look at them at
// other times.

#ifndef MATLOOM_OUTPUTS_H
#define MATLOOM_OUTPUTS_H

#include <cstdint>
#include <cstring>

namespace matloom {

template <uint32_t kBusBytes>
class OutputDigest {
 public:
  void open() { digest_ = kOffset; }
  uint64_t value() const { return digest_; }

  // Takes the signals of one cycle, as they are at its clock edge.
  template <typename Ports>
  void step(const Ports& p) {
    take(p.irq | p.s_axil_awready << 1 | p.s_axil_wready << 2 | p.s_axil_arready << 3 |
         p.s_axil_bvalid << 4 | p.s_axil_rvalid << 5 | p.m_axi_arvalid << 6 |
         p.m_axi_awvalid << 7 | p.m_axi_wvalid << 8 | p.m_axi_rready << 9 | p.m_axi_bready << 10);
    if (p.s_axil_bvalid) take(p.s_axil_bresp);
    if (p.s_axil_rvalid) take(p.s_axil_rdata), take(p.s_axil_rresp);
    if (p.m_axi_arvalid) {
      take(p.m_axi_araddr);
      take(p.m_axi_arid | p.m_axi_arlen << 8 | p.m_axi_arsize << 16 | p.m_axi_arburst << 24);
      take(p.m_axi_arlock | p.m_axi_arcache << 8 | p.m_axi_arprot << 16 | p.m_axi_arqos << 24);
    }
    if (p.m_axi_awvalid) {
      take(p.m_axi_awaddr);
      take(p.m_axi_awid | p.m_axi_awlen << 8 | p.m_axi_awsize << 16 | p.m_axi_awburst << 24);
      take(p.m_axi_awlock | p.m_axi_awcache << 8 | p.m_axi_awprot << 16 | p.m_axi_awqos << 24);
    }
    if (p.m_axi_wvalid) take_data(p);
  }

 private:
  // FNV-1a.
  static constexpr uint64_t kOffset = 0xcbf29ce484222325, kPrime = 0x100000001b3;

  void take(uint32_t value) {
    for (int byte = 0; byte < 4; ++byte) {
      digest_ = (digest_ ^ (value >> 8 * byte & 255)) * kPrime;
    }
  }

  template <typename Ports>
  void take_data(const Ports& p) {
    uint8_t data[kBusBytes];
    std::memcpy(data, &p.m_axi_wdata, kBusBytes);
    const uint64_t strobes = p.m_axi_wstrb;
    take(p.m_axi_wlast);
    for (uint32_t lane = 0; lane < kBusBytes; ++lane) {
      take(strobes >> lane & 1 ? 256 | data[lane] : 0);
    }
  }

  uint64_t digest_ = kOffset;
};

}  // namespace matloom

#endif
