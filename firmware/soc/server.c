/* Answers the host link: a host runs networks on the engine of a system on chip as on a board's. External
 * memory from this image's room on is the host's. */
#include "matloom_link.h"
#include "soc.h"

/* The processor has no errors of its bus: what failed stands in a register. */
static bool fine(void) {
  if (!(SOC_REGISTER(SYSTEM, ERRORS) & MATLOOM_SOC_SYSTEM_ERRORS_FAILED_MASK)) return true;
  SOC_REGISTER(SYSTEM, ERRORS) = MATLOOM_SOC_SYSTEM_ERRORS_FAILED_MASK;
  return false;
}

static bool read32(void* context, uint32_t offset, uint32_t* value) {
  (void)context;
  *value = SOC_WORD(MATLOOM_SOC_ENGINE_BASE + offset);
  return fine();
}

static bool write32(void* context, uint32_t offset, uint32_t value) {
  (void)context;
  SOC_WORD(MATLOOM_SOC_ENGINE_BASE + offset) = value;
  return fine();
}

static void invalidate(void* context, void* address, size_t bytes) {
  (void)context, (void)address, (void)bytes;
  soc_flush_data();
}

static uint32_t await(void* context, uint32_t cycles) {
  (void)context;
  const uint32_t begin = SOC_REGISTER(TIMER, COUNT_LOW);
  uint32_t passed = 0;
  while (passed < cycles &&
         !(SOC_REGISTER(INTERRUPTS, PENDING) & MATLOOM_SOC_INTERRUPTS_PENDING_ENGINE_MASK)) {
    passed = SOC_REGISTER(TIMER, COUNT_LOW) - begin;
  }
  return passed < cycles ? passed : cycles;
}

int main(void) {
  static struct matloom_link link;
  static char name[MATLOOM_SOC_BOARD_BYTES + 1u];
  for (uint32_t i = 0; i < MATLOOM_SOC_BOARD_BYTES; ++i) {
    const uint32_t word = SOC_WORD(MATLOOM_SOC_SYSTEM_BASE + MATLOOM_SOC_SYSTEM_BOARD_0_OFFSET +
                                   (i & ~3u));
    name[i] = (char)(word >> 8u * (i & 3u));
  }
  const struct matloom_link_board board = {
      .name = name,
      .clock_hz = SOC_REGISTER(SYSTEM, CLOCK_HZ),
      .digest = SOC_WORD(MATLOOM_SOC_ENGINE_BASE + MATLOOM_DIGEST_OFFSET),
      .memory = {.address = (void*)(uintptr_t)(MATLOOM_SOC_MEMORY_BASE + SOC_IMAGE_BYTES),
                 .bus = SOC_REGISTER(SYSTEM, MEMORY_BASE) + SOC_IMAGE_BYTES,
                 .bytes = SOC_REGISTER(SYSTEM, MEMORY_BYTES) - SOC_IMAGE_BYTES},
      .port = {.read32 = read32, .write32 = write32, .invalidate = invalidate},
      .await = await,
      .send = soc_send,
  };
  matloom_link_open(&link, &board);
  while (true) matloom_link_take(&link, soc_byte());
}
