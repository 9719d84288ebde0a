#define DT_DRV_COMPAT matloom_engine

#include "matloom_zephyr.h"

#include <zephyr/cache.h>
#include <zephyr/devicetree.h>
#include <zephyr/irq.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/barrier.h>

#define MEMORY DT_INST_PHANDLE(0, memory_region)
/* A reset raises no interrupt: the longest sleep before it is looked at again. */
#define SLICE K_MSEC(1)

static K_SEM_DEFINE(ended, 0, 1);
static const struct matloom_engine* owner;

static void on_interrupt(const void* unused) {
  ARG_UNUSED(unused);
  if (matloom_interrupt(owner)) k_sem_give(&ended);
}

static void clean(void* context, const void* address, size_t bytes) {
  ARG_UNUSED(context);
  (void)sys_cache_data_flush_range((void*)(uintptr_t)address, bytes);
}

static void invalidate(void* context, void* address, size_t bytes) {
  ARG_UNUSED(context);
  (void)sys_cache_data_invd_range(address, bytes);
}

static void barrier(void* context) {
  ARG_UNUSED(context);
  barrier_dsync_fence_full();
}

static void wait_for_interrupt(void* context) {
  ARG_UNUSED(context);
  (void)k_sem_take(&ended, SLICE);
}

static uint32_t milliseconds_now(void* context) {
  ARG_UNUSED(context);
  return k_uptime_get_32();
}

enum matloom_result matloom_zephyr_probe(struct matloom_engine* engine) {
  const struct matloom_port port = {
      .registers = (volatile uint32_t*)(uintptr_t)DT_INST_REG_ADDR(0),
      .clean = clean,
      .invalidate = invalidate,
      .barrier = barrier,
      .wait = wait_for_interrupt,
      .now = milliseconds_now,
      .timeout = CONFIG_MATLOOM_TIMEOUT_MS,
      .interrupts = true};
  const enum matloom_result result = matloom_probe(engine, &port);
  if (result != MATLOOM_OK) return result;
  owner = engine;
  IRQ_CONNECT(DT_INST_IRQN(0), DT_INST_IRQ(0, priority), on_interrupt, NULL, 0);
  irq_enable(DT_INST_IRQN(0));
  return MATLOOM_OK;
}

struct matloom_memory matloom_zephyr_memory(void) {
  const struct matloom_memory memory = {(void*)(uintptr_t)DT_REG_ADDR(MEMORY),
                                        (uint32_t)DT_REG_ADDR(MEMORY),
                                        (uint32_t)DT_REG_SIZE(MEMORY)};
  return memory;
}
