/* An engine whose registers are memory: its "work" is every input byte's complement, as fake_bus.h's.
 * Nothing happens by itself; a test says when. Numbers are typed from docs/registers.md. */
#ifndef MAPPED_ENGINE_H
#define MAPPED_ENGINE_H

#include <stdint.h>

enum { MAPPED_ID, MAPPED_DIGEST, MAPPED_CONTROL, MAPPED_STATUS, MAPPED_IRQ_ENABLE,
       MAPPED_IRQ_STATUS };

/* Does the work in `memory`, which begins at `bus`, and raises the interrupt. */
static inline void mapped_work(volatile uint32_t* registers, uint8_t* memory, uint32_t bus) {
  enum { INPUT_BASE = 20, INPUT_BYTES = 22, OUTPUT_BASE = 24, OUTPUT_BYTES = 26 };
  const uint8_t* from = memory + (registers[INPUT_BASE] - bus);
  uint8_t* to = memory + (registers[OUTPUT_BASE] - bus);
  for (uint32_t i = 0; i < registers[OUTPUT_BYTES]; ++i) {
    to[i] = (uint8_t)~from[i % registers[INPUT_BYTES]];
  }
  registers[MAPPED_CONTROL] = 0;
  registers[MAPPED_STATUS] = 2;
  registers[MAPPED_IRQ_STATUS] = 1;
}

#endif
