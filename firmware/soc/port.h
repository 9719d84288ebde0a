/* The engine of the system on chip, as the driver reaches it. */
#ifndef MATLOOM_SOC_PORT_H
#define MATLOOM_SOC_PORT_H

#include "matloom.h"

/* Registers whose failed accesses are told, the data cache flushed, waits that end with the engine's
 * interrupt line; `timeout`, in the timer's cycles, is ten seconds. */
struct matloom_port soc_port(void);

/* Waits until the engine's interrupt line is high, at most so many cycles; returns those that passed. */
uint32_t soc_await(void* context, uint32_t cycles);

#endif
