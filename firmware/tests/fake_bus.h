/* An engine that consists of registers only, for tests: it "computes" the complement of each byte.
 *
 * Offsets and bits are typed here from docs/registers.md, not taken from the generated header, so
 * that an error in either is seen. */
#ifndef FAKE_BUS_H
#define FAKE_BUS_H

#include <stdalign.h>

#include "matloom.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef FAKE_MEMORY_BYTES
#define FAKE_MEMORY_BYTES 65536u
#endif
#define FAKE_MEMORY_BUS 0x80000000u
#define NEVER 0xffffffffu

struct fake {
  uint32_t registers[512];
  alignas(64) uint8_t memory[FAKE_MEMORY_BYTES];
  uint32_t busy_polls;  /* polls until a run ends, or NEVER */
  uint32_t reset_polls; /* polls until a reset ends, or NEVER */
  uint32_t fault;       /* value of FAULT at the end of the next run; 0: none */
  uint32_t accesses_left; /* until the bus fails, or NEVER */
  uint32_t left;
  uint32_t runs, resets, accesses, cleans, invalidates, barriers, waits;
  uint32_t barriers_at_start, cleans_at_start;
  uint32_t clock, tick;
};

/* Initialises a fake engine with a digest; returns a port to it with all functions. */
void fake_open(struct fake* fake, uint32_t digest);
struct matloom_port fake_port(struct fake* fake);
struct matloom_memory fake_memory(struct fake* fake);

#ifdef __cplusplus
}
#endif

#endif
