/* The board of an example: access to its engine, shared memory, inputs and outputs. */
#ifndef BOARD_H
#define BOARD_H

#include "matloom.h"

struct matloom_port board_port(void);
struct matloom_memory board_memory(void);

/* The next image, 64 bytes; false after the last. */
bool board_input(int8_t* image);
/* Outputs a number. */
void board_say(int number);
/* Cycles of the engine's clock, modulo 2^32, for measurements. */
uint32_t board_cycles(void);

#endif
