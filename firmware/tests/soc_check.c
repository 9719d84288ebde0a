/* Shows what a processor of the system on chip sees, a line for each thing: a name and numbers. The test on
 * the host knows what they should be. */
#include "matloom_regs.h"
#include "soc.h"

#define WORD(address) SOC_WORD(address)
#define BYTE(address) (*(volatile uint8_t*)(uintptr_t)(address))
#define TIMER(name) SOC_REGISTER(TIMER, name)
#define INTERRUPTS(name) SOC_REGISTER(INTERRUPTS, name)
#define SYSTEM(name) SOC_REGISTER(SYSTEM, name)
#define ENGINE(name) WORD(MATLOOM_SOC_ENGINE_BASE + MATLOOM_##name##_OFFSET)

/* Past all that is linked, in both views of external memory. */
#define SCRATCH 0x20000u
#define CACHED (MATLOOM_SOC_MEMORY_BASE + SCRATCH)
/* Block RAM past variables and stack. */
#define RAM (MATLOOM_SOC_RAM_BASE + 0x4000u)
#define UNCACHED (MATLOOM_SOC_UNCACHED_BASE + SCRATCH)

enum { MTIE = 1 << 7, MEIE = 1 << 11 };

static void put(char letter) {
  const uint8_t byte = (uint8_t)letter;
  soc_send(NULL, &byte, 1);
}

static void say(const char* name, const uint32_t* values, size_t count) {
  while (*name != 0) put(*name++);
  for (size_t i = 0; i < count; ++i) {
    put(' ');
    for (int shift = 28; shift >= 0; shift -= 4) put("0123456789abcdef"[values[i] >> shift & 15u]);
  }
  put('\n');
}

/* ---- Memories ---- */

static void memories(void) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 4096; i += 4) WORD(CACHED + i) = i * 2654435761u;
  for (uint32_t i = 0; i < 4096; i += 4) sum += WORD(CACHED + i);
  BYTE(CACHED + 5) = 0xab;
  *(volatile uint16_t*)(uintptr_t)(CACHED + 10) = 0xcdef;
  for (uint32_t i = 0; i < 1024; i += 4) WORD(RAM + i) = ~i;
  BYTE(RAM + 6) = 0x55;
  const uint32_t values[] = {sum, WORD(UNCACHED + 4), WORD(UNCACHED + 8),
                             WORD(RAM + 4), WORD(RAM + 1020)};
  say("memories", values, 5);
}

/* What was read is kept when another writes, until the cache is flushed. */
static void caches(void) {
  uint32_t values[3];
  const uint32_t place = 0x10000; /* nobody read this line before */
  WORD(UNCACHED + place) = 1;
  values[0] = WORD(CACHED + place);
  WORD(UNCACHED + place) = 2;
  values[1] = WORD(CACHED + place);
  soc_flush_data();
  values[2] = WORD(CACHED + place);
  say("caches", values, 3);
}

static void arithmetic(uint32_t one, uint32_t other) {
  const uint32_t values[] = {one * other, (uint32_t)((uint64_t)one * other >> 32), one / other,
                             one % other, (uint32_t)((int32_t)one / -7)};
  say("arithmetic", values, 5);
}

/* Cycles of reads of 64 lines, and of 64 words of one line. */
static void cycles(void) {
  uint32_t marks[4];
  soc_flush_data();
  marks[0] = TIMER(COUNT_LOW);
  for (uint32_t i = 0; i < 64; ++i) (void)WORD(CACHED + 32 * i);
  marks[1] = TIMER(COUNT_LOW);
  for (uint32_t i = 0; i < 64; ++i) (void)WORD(CACHED + 32 * 63 + 4 * (i & 7u));
  marks[2] = TIMER(COUNT_LOW);
  for (uint32_t i = 0; i < 64; ++i) WORD(CACHED + 4 * i) = i;
  marks[3] = TIMER(COUNT_LOW);
  const uint32_t values[] = {marks[1] - marks[0], marks[2] - marks[1], marks[3] - marks[2]};
  say("cycles", values, 3);
}

/* ---- Interrupts ---- */

static volatile uint32_t timer_interrupts, engine_interrupts, heard, causes;

static void handle_timer(void) {
  ++timer_interrupts;
  TIMER(COMPARE_LOW) = TIMER(COUNT_LOW) + 500;
  if (timer_interrupts == 3) TIMER(CONTROL) = 0;
}

static void handle_others(uint32_t pending) {
  if (pending & MATLOOM_SOC_INTERRUPTS_PENDING_ENGINE_MASK) {
    ++engine_interrupts;
    ENGINE(IRQ_STATUS) = MATLOOM_IRQ_STATUS_DONE_MASK | MATLOOM_IRQ_STATUS_FAULT_MASK;
  }
  if (pending & MATLOOM_SOC_INTERRUPTS_PENDING_UART_MASK) {
    put((char)(soc_byte() ^ 0x20u));
    ++heard;
  }
}

__attribute__((interrupt("machine"), aligned(4))) static void trap(void) {
  uint32_t cause = 0;
  __asm__ volatile("csrr %0, mcause" : "=r"(cause));
  causes |= cause & 0x80000000u ? 1u << (cause & 31u) : 1u;
  if ((cause & 31u) == 7) {
    handle_timer();
  } else {
    handle_others(INTERRUPTS(PENDING));
  }
}

static void interrupts(uint32_t letters) {
  const uint32_t sources =
      MATLOOM_SOC_INTERRUPTS_ENABLE_ENGINE_MASK | MATLOOM_SOC_INTERRUPTS_ENABLE_UART_MASK;
  __asm__ volatile("csrw mtvec, %0" ::"r"(trap));
  __asm__ volatile("csrw 0xbc0, %0" ::"r"(1));
  __asm__ volatile("csrw mie, %0" ::"r"(MTIE | MEIE));
  INTERRUPTS(ENABLE) = sources;
  TIMER(COMPARE_HIGH) = 0;
  TIMER(COMPARE_LOW) = TIMER(COUNT_LOW) + 500;
  TIMER(CONTROL) = MATLOOM_SOC_TIMER_CONTROL_INTERRUPT_MASK;
  ENGINE(IRQ_ENABLE) = MATLOOM_IRQ_ENABLE_DONE_MASK | MATLOOM_IRQ_ENABLE_FAULT_MASK;
  ENGINE(COMMAND_OFFSET) = 4; /* no multiple of 16: a fault */
  ENGINE(CONTROL) = MATLOOM_CONTROL_START_MASK;
  say("ready", NULL, 0);
  __asm__ volatile("csrsi mstatus, 8");
  while (heard < letters || timer_interrupts < 3 || engine_interrupts < 1) {
  }
  __asm__ volatile("csrci mstatus, 8");
  put('\n');
  const uint32_t values[] = {timer_interrupts, engine_interrupts, causes, ENGINE(FAULT) & 15u};
  say("interrupts", values, 4);
}

/* ---- Others ---- */

static void system(void) {
  const uint32_t values[] = {SYSTEM(ID), SYSTEM(CLOCK_HZ), SYSTEM(MEMORY_BYTES), SYSTEM(BOARD_0),
                             ENGINE(ID), ENGINE(DIGEST)};
  say("system", values, 6);
}

static void errors(void) {
  uint32_t values[5];
  values[0] = SYSTEM(ERRORS);
  (void)WORD(MATLOOM_SOC_BUS_MEMORY_BASE + 16u); /* the engine's address, not a processor's */
  values[1] = SYSTEM(ERRORS);
  values[2] = SYSTEM(ERROR_ADDRESS);
  SYSTEM(ERRORS) = 1;
  values[3] = SYSTEM(ERRORS);
  (void)WORD(MATLOOM_SOC_UNCACHED_BASE + SYSTEM(MEMORY_BYTES)); /* past the end of memory */
  values[4] = SYSTEM(ERROR_ADDRESS);
  say("errors", values, 5);
}

int main(void) {
  system();
  memories();
  caches();
  arithmetic(0xfedcba98u, 0x1235u);
  cycles();
  errors();
  interrupts(5);
  say("end", NULL, 0);
  return 0;
}
