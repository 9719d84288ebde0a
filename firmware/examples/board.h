/* The board of an example: how its engine is reached, memory that both sides reach, and a world to
 * read from and to speak to. */
#ifndef BOARD_H
#define BOARD_H

#include "matloom.h"

struct matloom_port board_port(void);
struct matloom_memory board_memory(void);

/* The next image, 64 bytes; false after the last. */
bool board_input(int8_t* image);
/* Says a number to somebody. */
void board_say(int number);
/* Cycles of the engine's clock, modulo 2^32; for those who measure. */
uint32_t board_cycles(void);

#endif
