// The SDRAM model alone, with a C interface for ctypes: for tests of units in another simulator.

#include "sdram.h"

using matloom::Sdram;

extern "C" {

void* sdram_create(const matloom::SdramShape* shape) { return new Sdram(*shape); }
void sdram_destroy(void* sdram) { delete static_cast<Sdram*>(sdram); }
void sdram_power_up(void* sdram) { static_cast<Sdram*>(sdram)->power_up(); }
void sdram_allow_auto_precharge(void* sdram) {
  static_cast<Sdram*>(sdram)->allow_auto_precharge();
}
uint32_t sdram_step(void* sdram, const matloom::SdramPins* pins) {
  return static_cast<Sdram*>(sdram)->step(*pins);
}
uint32_t sdram_breach(void* sdram) { return static_cast<Sdram*>(sdram)->breach(); }
uint64_t sdram_breach_edge(void* sdram) { return static_cast<Sdram*>(sdram)->breach_edge(); }
uint64_t sdram_refreshes(void* sdram) { return static_cast<Sdram*>(sdram)->refreshes(); }
uint64_t sdram_columns(void* sdram) { return static_cast<Sdram*>(sdram)->columns(); }
uint64_t sdram_activations(void* sdram) { return static_cast<Sdram*>(sdram)->activations(); }
void sdram_write(void* sdram, uint64_t address, const uint8_t* data, uint64_t bytes) {
  static_cast<Sdram*>(sdram)->write(address, data, bytes);
}
void sdram_read(void* sdram, uint64_t address, uint8_t* data, uint64_t bytes) {
  static_cast<Sdram*>(sdram)->read(address, data, bytes);
}
}
