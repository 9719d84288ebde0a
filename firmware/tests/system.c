/* The system of the tests: lines are standard input and output, the clock is the simulation's. */
#include "system.h"

#include <stdio.h>

void system_begin(void) {}

bool system_read(void* bytes, size_t count) { return fread(bytes, count, 1, stdin) == 1; }

void system_write(const char* bytes, size_t count) { (void)fwrite(bytes, count, 1, stdout); }

uint32_t system_cycles(void) { return board_cycles(); }
