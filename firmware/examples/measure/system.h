/* What applications need of the system they run on, next to `board.h`: a line, and a clock. */
#ifndef MATLOOM_SYSTEM_H
#define MATLOOM_SYSTEM_H

#include "board.h"

/* Called once, first: may say what this is, in a line. */
void system_begin(void);

/* Waits for bytes from the line; false where it has ended. */
bool system_read(void* bytes, size_t count);
void system_write(const char* bytes, size_t count);

/* The processor's cycles, modulo 2^32, counted at the rate of the engine's. */
uint32_t system_cycles(void);

#endif
