/* The board of an example: how its engine is reached, and memory that both sides reach. */
#ifndef BOARD_H
#define BOARD_H

#include "matloom.h"

struct matloom_port board_port(void);
struct matloom_memory board_memory(void);

#endif
