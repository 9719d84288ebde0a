/* The system on chip for applications (system.h): serial line, timer, engine, and the external
 * memory after the application's own image. */
#include "system.h"

#include "line.h"
#include "port.h"
#include "soc.h"

/* From app.ld: the first byte after the image and its variables. */
extern uint8_t image_end[];

struct matloom_port board_port(void) { return soc_port(); }

struct matloom_memory board_memory(void) {
  const uint32_t taken = (uint32_t)((uintptr_t)image_end - MATLOOM_SOC_MEMORY_BASE);
  const uint32_t bytes = SOC_REGISTER(SYSTEM, MEMORY_BYTES);
  const struct matloom_memory memory = {
      .address = image_end,
      .bus = SOC_REGISTER(SYSTEM, MEMORY_BASE) + taken,
      .bytes = bytes > taken ? bytes - taken : 0,
  };
  return memory;
}

void system_begin(void) {
  char name[MATLOOM_SOC_BOARD_BYTES + 1u];
  soc_board(name);
  soc_say("matloom on ");
  soc_say(name);
  soc_say(": digest, hertz, memory");
  soc_say_number(SOC_WORD(MATLOOM_SOC_ENGINE_BASE + MATLOOM_DIGEST_OFFSET));
  soc_say_number(SOC_REGISTER(SYSTEM, CLOCK_HZ));
  soc_say_number(SOC_REGISTER(SYSTEM, MEMORY_BYTES));
  soc_say("\n");
}

bool system_read(void* bytes, size_t count) {
  uint8_t* out = bytes;
  for (size_t i = 0; i < count; ++i) out[i] = soc_byte();
  return true;
}

void system_write(const char* bytes, size_t count) { soc_send(NULL, (const uint8_t*)bytes, count); }

uint32_t system_cycles(void) { return SOC_REGISTER(TIMER, COUNT_LOW); }
