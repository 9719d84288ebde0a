/* The engine of the devicetree for programs of Zephyr: the first node of "matloom,engine". */
#ifndef MATLOOM_ZEPHYR_H
#define MATLOOM_ZEPHYR_H

#include "matloom.h"

/* Probes the engine and connects its interrupt. Runs wait on a semaphore, so that other threads run
 * meanwhile. `engine` must stay where it is; one thread at a time may use it. Errors: as
 * matloom_probe's. */
enum matloom_result matloom_zephyr_probe(struct matloom_engine* engine);

/* The node's memory, for matloom_attach. */
struct matloom_memory matloom_zephyr_memory(void);

#endif
