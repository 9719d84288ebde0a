/* Answers the host link: a host runs networks on the engine of a system on chip as on a board's. External
 * memory from this image's room on is the host's. */
#include "matloom_link.h"
#include "port.h"
#include "soc.h"

int main(void) {
  static struct matloom_link link;
  static char name[MATLOOM_SOC_BOARD_BYTES + 1u];
  soc_board(name);
  const struct matloom_link_board board = {
      .name = name,
      .clock_hz = SOC_REGISTER(SYSTEM, CLOCK_HZ),
      .digest = SOC_WORD(MATLOOM_SOC_ENGINE_BASE + MATLOOM_DIGEST_OFFSET),
      .memory = {.address = (void*)(uintptr_t)(MATLOOM_SOC_MEMORY_BASE + SOC_IMAGE_BYTES),
                 .bus = SOC_REGISTER(SYSTEM, MEMORY_BASE) + SOC_IMAGE_BYTES,
                 .bytes = SOC_REGISTER(SYSTEM, MEMORY_BYTES) - SOC_IMAGE_BYTES},
      .port = soc_port(),
      .await = soc_await,
      .send = soc_send,
  };
  matloom_link_open(&link, &board);
  while (true) matloom_link_take(&link, soc_byte());
}
