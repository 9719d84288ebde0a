// The far end of a serial line of a simulated chip: 8 data bits, no parity, one stop bit.

#ifndef MATLOOM_UART_H
#define MATLOOM_UART_H

#include <cstdint>
#include <deque>

namespace matloom {

class Uart {
 public:
  explicit Uart(uint32_t divisor) : divisor_(divisor) {}

  std::deque<uint8_t> to_chip, from_chip;

  // Whether a byte is under way, or waits to be.
  bool busy() const { return !to_chip.empty() || sending_ || receiving_; }

  // The level that the chip sees in this cycle.
  uint8_t drive() {
    if (!sending_) {
      if (to_chip.empty()) return 1;
      bits_ = 0x200u | to_chip.front() << 1;
      to_chip.pop_front();
      sending_ = 10 * divisor_;
    }
    const uint32_t place = (10 * divisor_ - sending_--) / divisor_;
    return bits_ >> place & 1;
  }

  // Takes the level that the chip drives in this cycle. Bits are read in their middle.
  void sample(uint8_t level) {
    if (!receiving_) {
      if (level) return;
      receiving_ = 1;
      byte_ = 0;
    }
    const uint32_t bit = (receiving_ - 1) / divisor_;
    if ((receiving_ - 1) % divisor_ == divisor_ / 2) {
      if (bit >= 1 && bit <= 8) byte_ |= static_cast<uint8_t>(level << (bit - 1));
      if (bit == 9) {
        if (level) from_chip.push_back(byte_);
        receiving_ = 0;
        return;
      }
    }
    ++receiving_;
  }

 private:
  uint32_t divisor_, bits_ = 0, sending_ = 0, receiving_ = 0;
  uint8_t byte_ = 0;
};

}  // namespace matloom

#endif
