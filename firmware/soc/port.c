#include "port.h"

#include "soc.h"

/* Time limit of a run in seconds. */
#define SECONDS 10u

/* Most cycles between two polls of the driver, which then checks the time. */
#define QUESTION_CYCLES 0x10000u

/* The processor does not see bus errors: a register has the failed access. */
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
  (void)context;
  (void)address;
  (void)bytes;
  soc_flush_data();
}

static uint32_t now(void* context) {
  (void)context;
  return SOC_REGISTER(TIMER, COUNT_LOW);
}

static void wait(void* context) { (void)soc_await(context, QUESTION_CYCLES); }

uint32_t soc_await(void* context, uint32_t cycles) {
  const uint32_t begin = now(context);
  uint32_t passed = 0;
  while (passed < cycles &&
         !(SOC_REGISTER(INTERRUPTS, PENDING) & MATLOOM_SOC_INTERRUPTS_PENDING_ENGINE_MASK)) {
    passed = now(context) - begin;
  }
  return passed < cycles ? passed : cycles;
}

struct matloom_port soc_port(void) {
  const struct matloom_port port = {
      .read32 = read32,
      .write32 = write32,
      .invalidate = invalidate,
      .wait = wait,
      .now = now,
      .timeout = SECONDS * SOC_REGISTER(SYSTEM, CLOCK_HZ),
      .interrupts = true,
  };
  (void)fine(); /* ignore earlier failures */
  return port;
}
