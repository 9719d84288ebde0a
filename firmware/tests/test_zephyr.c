/* The example for Zephyr: its sample runs against headers that stand for Zephyr's, and an engine that
 * works while the driver waits for its semaphore. */
#define _DEFAULT_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "mapped_engine.h"
#include "matloom_zephyr.h"
#include <zephyr/cache.h>
#include <zephyr/devicetree.h>
#include <zephyr/irq.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/barrier.h>
#include <zephyr/sys/printk.h>

#ifndef MAP_32BIT
#define MAP_32BIT 0 /* where addresses are small anyway */
#endif

int sample(void); /* main of the sample */

volatile uint32_t stand_in_registers[512];
void* stand_in_memory;
static void (*handler)(const void*);
static uint32_t sleeps_left, takes, uptime, enabled, cleaned, invalidated, barriers;
static char said[200];

/* The interrupt comes while the thread sleeps, and its handler wakes it. */
int k_sem_take(struct k_sem* sem, k_timeout_t longest) {
  CHECK(longest.milliseconds > 0);
  ++takes;
  uptime += (uint32_t)longest.milliseconds;
  if (sleeps_left != 0 && --sleeps_left == 0) {
    EQUAL(stand_in_registers[MAPPED_IRQ_ENABLE], 3);
    CHECK(cleaned > 0 && barriers > 0);
    mapped_work(stand_in_registers, stand_in_memory, (uint32_t)(uintptr_t)stand_in_memory);
    handler(NULL);
    EQUAL(sem->count, 1);
  }
  if (sem->count == 0) return -1;
  --sem->count;
  return 0;
}

void k_sem_give(struct k_sem* sem) {
  if (sem->count < sem->limit) ++sem->count;
}

uint32_t k_uptime_get_32(void) { return uptime; }

void stand_in_connect(unsigned int irq, unsigned int priority, void (*isr)(const void*)) {
  EQUAL(irq, 5);
  EQUAL(priority, 1);
  handler = isr;
}

void irq_enable(unsigned int irq) { enabled = irq; }

int sys_cache_data_flush_range(void* address, size_t bytes) {
  CHECK(address != NULL && bytes > 0);
  ++cleaned;
  return 0;
}

int sys_cache_data_invd_range(void* address, size_t bytes) {
  CHECK(address != NULL && bytes > 0);
  ++invalidated;
  return 0;
}

void barrier_dsync_fence_full(void) { ++barriers; }

void printk(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(said, sizeof said, format, arguments);
  va_end(arguments);
}

int main(void) {
  stand_in_memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  CHECK(stand_in_memory != MAP_FAILED);
  EQUAL(sample(), 0);
  EQUAL(strcmp(said, "no engine of this interface version\n"), 0);
  EQUAL(enabled, 0);
  stand_in_registers[MAPPED_ID] = 0x4d4c0008u;
  stand_in_registers[MAPPED_DIGEST] = DIGEST;
  EQUAL(sample(), 0); /* nothing ends the run: the sample says so */
  EQUAL(strcmp(said, "no end in time\n"), 0);
  CHECK(takes >= CONFIG_MATLOOM_TIMEOUT_MS && takes <= CONFIG_MATLOOM_TIMEOUT_MS + 2);
  sleeps_left = 2;
  takes = 0;
  EQUAL(sample(), 0);
  EQUAL(strcmp(said, "digit 0\n"), 0); /* the first of ten complements that is largest */
  CHECK(takes == 2 && enabled == 5 && invalidated > 0);
  EQUAL(stand_in_registers[MAPPED_IRQ_STATUS], 1); /* what was written back: 1 clears */
  handler(NULL);
  EQUAL(munmap(stand_in_memory, 65536), 0);
  return 0;
}
