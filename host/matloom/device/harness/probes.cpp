// Keeps what the probes in the simulated Verilog tell (`matloom.toolchain.probes`), and writes
// Verilator's coverage of lines and toggles where the model was built with it.

#include <cstdint>
#include <vector>

#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

namespace {

struct Event {
  uint64_t cycle;
  uint32_t kind, units;
};

// Simulations that take turns in one thread are told apart by whoever takes the events.
thread_local std::vector<Event> events;

}  // namespace

extern "C" {

void matloom_probe(long long cycle, int kind, int units) {
  events.push_back({static_cast<uint64_t>(cycle), static_cast<uint32_t>(kind),
                    static_cast<uint32_t>(units)});
}
uint64_t matloom_events() { return events.size(); }
void matloom_take_events(Event* place) {
  for (const Event& event : events) *place++ = event;
  events.clear();
}
// Returns whether anything was written. The counts are those of the thread's last simulation.
int matloom_write_coverage(const char* path) {
#if VM_COVERAGE
  Verilated::threadContextp()->coveragep()->write(path);
  return 1;
#else
  (void)path;
  return 0;
#endif
}
}
