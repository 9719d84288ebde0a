/* The driver's access to the engine of the system on chip. */
#ifndef MATLOOM_SOC_PORT_H
#define MATLOOM_SOC_PORT_H

#include "matloom.h"

/* Returns a port that reports failed accesses of registers, flushes the data cache, and waits for
 * the engine's interrupt line; `timeout`, in cycles of the timer, is ten seconds. */
struct matloom_port soc_port(void);

/* Waits for the engine's interrupt line, at most `cycles`; returns the cycles that passed. */
uint32_t soc_await(void* context, uint32_t cycles);

#endif
