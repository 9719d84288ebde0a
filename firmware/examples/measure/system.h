/* What applications need from their system in addition to `board.h`: a line and a clock. */
#ifndef MATLOOM_SYSTEM_H
#define MATLOOM_SYSTEM_H

#include "board.h"

/* Called once, at the start; may print a line about the system. */
void system_begin(void);

/* Waits for bytes from the line; returns false at its end. */
bool system_read(void* bytes, size_t count);
void system_write(const char* bytes, size_t count);

/* The processor's cycles, modulo 2^32, counted at the rate of the engine's. */
uint32_t system_cycles(void);

#endif
