// The monitor of the simulated chip, stepped by a script instead: every signal is a number.

#include <new>

#include "monitor.h"

constexpr uint32_t kBusBytes = 16;

struct Ports {
#define SIGNAL(name) uint64_t name;
#define WORDS(name) uint64_t name[kBusBytes / 8];
#include "signals.h"
};

using Watcher = matloom::Monitor<kBusBytes>;

extern "C" {
void* open_monitor(uint32_t burst_beats, uint32_t outstanding, uint64_t ignored) {
  auto* monitor = new Watcher;
  monitor->open(burst_beats, outstanding, ignored);
  return monitor;
}
void close_monitor(void* monitor) { delete static_cast<Watcher*>(monitor); }
int step_monitor(void* monitor, const Ports* ports, uint64_t cycle, matloom::Breach* breach) {
  auto* watcher = static_cast<Watcher*>(monitor);
  watcher->step(*ports, cycle);
  *breach = watcher->breach();
  return watcher->broken();
}
}
