// Runs a simulation with the far end of its serial line on a pseudo-terminal.

#ifndef MATLOOM_SERVE_H
#define MATLOOM_SERVE_H

#include <poll.h>
#include <unistd.h>

#include <cstdint>

#include "uart.h"

namespace matloom {

// Moves what has come over a pseudo-terminal to the chip's line; tells whether there was anything.
inline bool receive(Uart& uart, int line) {
  uint8_t bytes[4096];
  const ssize_t count = read(line, bytes, sizeof bytes);
  if (count <= 0) return false;
  uart.to_chip.insert(uart.to_chip.end(), bytes, bytes + count);
  return true;
}

// Moves what the chip has sent to a pseudo-terminal, as far as that takes it.
inline bool send(Uart& uart, int line) {
  bool went = false;
  while (!uart.from_chip.empty() && write(line, &uart.from_chip.front(), 1) == 1) {
    uart.from_chip.pop_front();
    went = true;
  }
  return went;
}

// Passes bytes between a pseudo-terminal's far end, which must not block, and the chip, of which
// `step` simulates a cycle, until `stop` says so.
template <class Step, class Stop>
void serve(Uart& uart, Step step, int line, Stop stop) {
  // Cycles without a byte after which the clock stands still: more than a WAIT of the host takes. A
  // link that has replied has nothing to do, but for a reply that follows; a processor may have.
  constexpr uint64_t kQuiet = 5 << 18;
#ifdef MATLOOM_PROCESSOR
  constexpr uint64_t kReplied = kQuiet;
#else
  constexpr uint64_t kReplied = 1 << 16;
#endif
  constexpr uint32_t kBatch = 1 << 11;
  constexpr int kPollMilliseconds = 20;
  uint64_t quiet = 0;
  bool replied = true;
  while (!stop()) {
    if (quiet > (replied ? kReplied : kQuiet)) {
      // Bytes that a full terminal did not take go on when there is room.
      const int events = uart.from_chip.empty() ? POLLIN : POLLIN | POLLOUT;
      pollfd waiting{line, short(events), 0};
      if (poll(&waiting, 1, kPollMilliseconds) <= 0) continue;
    }
    const bool came = receive(uart, line);
    for (uint32_t i = 0; i < kBatch; ++i) step();
    const bool went = send(uart, line);
    replied = went || (replied && !came);
    quiet = came || went || uart.busy() ? 0 : quiet + kBatch;
  }
}

}  // namespace matloom

#endif
