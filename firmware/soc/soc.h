/* The system on chip's registers and caches, for its firmware: docs/soc.md. */
#ifndef MATLOOM_SOC_ACCESS_H
#define MATLOOM_SOC_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "matloom_soc.h"

/* Room for the image of image.ld at the beginning of external memory. */
#define SOC_IMAGE_BYTES 0x10000u

#define SOC_WORD(address) (*(volatile uint32_t*)(uintptr_t)(address))
/* A register, by the names of its peripheral and of the register. */
#define SOC_REGISTER(peripheral, name) \
  SOC_WORD(MATLOOM_SOC_##peripheral##_BASE + MATLOOM_SOC_##peripheral##_##name##_OFFSET)

/* Whether a byte has arrived on the line. */
static inline bool soc_came(void) {
  return (SOC_REGISTER(UART, STATUS) & MATLOOM_SOC_UART_STATUS_RX_AVAILABLE_MASK) != 0;
}

/* Waits for the next byte on the line, and returns it. */
static inline uint8_t soc_byte(void) {
  while (!soc_came()) {
  }
  return (uint8_t)SOC_REGISTER(UART, DATA);
}

/* Sends bytes; returns once the last one is queued. */
static inline void soc_send(void* context, const uint8_t* bytes, size_t count) {
  (void)context;
  for (size_t i = 0; i < count; ++i) {
    while (!(SOC_REGISTER(UART, STATUS) & MATLOOM_SOC_UART_STATUS_TX_READY_MASK)) {
    }
    SOC_REGISTER(UART, DATA) = bytes[i];
  }
}

/* Stores the board's name, at most MATLOOM_SOC_BOARD_BYTES and a zero. */
static inline void soc_board(char* name) {
  for (uint32_t i = 0; i < MATLOOM_SOC_BOARD_BYTES; ++i) {
    const uint32_t word = SOC_WORD(MATLOOM_SOC_SYSTEM_BASE + MATLOOM_SOC_SYSTEM_BOARD_0_OFFSET +
                                   (i & ~3u));
    name[i] = (char)(word >> 8u * (i & 3u));
  }
  name[MATLOOM_SOC_BOARD_BYTES] = 0;
}

/* Flushes the data cache, if there is one, after the engine has written memory. */
static inline void soc_flush_data(void) {
  if (SOC_REGISTER(SYSTEM, DATA_CACHE) != 0) __asm__ volatile(".word 0x500f" ::: "memory");
}

/* Flushes the instruction cache, after an image has been loaded. */
static inline void soc_flush_instructions(void) { __asm__ volatile("fence.i" ::: "memory"); }

#endif
