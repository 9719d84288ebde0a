#include "fake_bus.h"

#include <string.h>

enum {
  ID = 0x00, DIGEST = 0x04, CONTROL = 0x08, STATUS = 0x0c, IRQ_ENABLE = 0x10, IRQ_STATUS = 0x14,
  FAULT = 0x24, INPUT_BASE = 0x50, INPUT_BYTES = 0x58, OUTPUT_BASE = 0x60, OUTPUT_BYTES = 0x68
};
enum { BUSY = 1, DONE = 2, FAULTED = 4, RESETTING = 8 };

static bool passes(struct fake* fake) {
  ++fake->accesses;
  if (fake->accesses_left == NEVER) return true;
  if (fake->accesses_left == 0) return false;
  --fake->accesses_left;
  return true;
}

/* Complements the bytes of region INPUT into region OUTPUT. */
static void work(struct fake* fake) {
  const uint32_t from = fake->registers[INPUT_BASE / 4] - FAKE_MEMORY_BUS;
  const uint32_t to = fake->registers[OUTPUT_BASE / 4] - FAKE_MEMORY_BUS;
  const uint32_t inputs = fake->registers[INPUT_BYTES / 4];
  for (uint32_t i = 0; i < fake->registers[OUTPUT_BYTES / 4]; ++i) {
    fake->memory[to + i] = inputs == 0 ? 0xa5 : (uint8_t)~fake->memory[from + i % inputs];
  }
}

static uint32_t status(struct fake* fake) {
  uint32_t* value = &fake->registers[STATUS / 4];
  if ((*value & (BUSY | RESETTING)) == 0 || fake->left == NEVER || fake->left-- != 0) return *value;
  if (*value & RESETTING) {
    *value = 0;
  } else if (fake->fault != 0) {
    fake->registers[FAULT / 4] = fake->fault;
    *value = FAULTED;
    fake->registers[IRQ_STATUS / 4] = 2;
  } else {
    work(fake);
    *value = DONE;
    fake->registers[IRQ_STATUS / 4] = 1;
  }
  return *value;
}

static bool fake_read(void* context, uint32_t offset, uint32_t* value) {
  struct fake* fake = context;
  if (!passes(fake)) return false;
  *value = offset == STATUS ? status(fake) : fake->registers[offset / 4];
  return true;
}

static void control(struct fake* fake, uint32_t value) {
  uint32_t* state = &fake->registers[STATUS / 4];
  if (value & 2) {
    *state = RESETTING;
    fake->left = fake->reset_polls;
    ++fake->resets;
  } else if (value & 1 && (*state & (BUSY | FAULTED | RESETTING)) == 0) {
    *state = BUSY;
    fake->left = fake->busy_polls;
    ++fake->runs;
    fake->barriers_at_start = fake->barriers;
    fake->cleans_at_start = fake->cleans;
  }
}

static bool fake_write(void* context, uint32_t offset, uint32_t value) {
  struct fake* fake = context;
  if (!passes(fake)) return false;
  if (offset == CONTROL) {
    control(fake, value);
  } else if (offset == IRQ_STATUS) {
    fake->registers[IRQ_STATUS / 4] &= ~value;
  } else {
    fake->registers[offset / 4] = value;
  }
  return true;
}

static void fake_clean(void* context, const void* address, size_t bytes) {
  (void)address;
  (void)bytes;
  ++((struct fake*)context)->cleans;
}

static void fake_invalidate(void* context, void* address, size_t bytes) {
  (void)address;
  (void)bytes;
  ++((struct fake*)context)->invalidates;
}

static void fake_barrier(void* context) { ++((struct fake*)context)->barriers; }

static void fake_wait(void* context) { ++((struct fake*)context)->waits; }

static uint32_t fake_now(void* context) {
  struct fake* fake = context;
  fake->clock += fake->tick;
  return fake->clock;
}

void fake_open(struct fake* fake, uint32_t digest) {
  memset(fake, 0, sizeof *fake);
  fake->registers[ID / 4] = 0x4d4c0008u;
  fake->registers[DIGEST / 4] = digest;
  fake->busy_polls = 3;
  fake->reset_polls = 2;
  fake->accesses_left = NEVER;
  fake->clock = 0xfffffff0u; /* wraps around soon */
  fake->tick = 1;
}

struct matloom_port fake_port(struct fake* fake) {
  const struct matloom_port port = {.context = fake,
                                    .read32 = fake_read,
                                    .write32 = fake_write,
                                    .clean = fake_clean,
                                    .invalidate = fake_invalidate,
                                    .barrier = fake_barrier,
                                    .wait = fake_wait,
                                    .now = fake_now,
                                    .timeout = 100};
  return port;
}

struct matloom_memory fake_memory(struct fake* fake) {
  const struct matloom_memory memory = {fake->memory, FAKE_MEMORY_BUS, FAKE_MEMORY_BYTES};
  return memory;
}
