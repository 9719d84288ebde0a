/* The boot ROM: receives an image over the serial line into external memory, and starts it. */
#include "loader.h"
#include "soc.h"

int main(void) {
  const struct matloom_loader_board board = {
      .memory = (uint8_t*)(uintptr_t)MATLOOM_SOC_MEMORY_BASE,
      .bytes = SOC_REGISTER(SYSTEM, MEMORY_BYTES),
      .send = soc_send,
  };
  static struct matloom_loader loader;
  matloom_loader_open(&loader, &board);
  while (!matloom_loader_take(&loader, soc_byte())) {
  }
  soc_flush_data();
  soc_flush_instructions();
  ((void (*)(void))(uintptr_t)MATLOOM_SOC_MEMORY_BASE)();
  return 0;
}
