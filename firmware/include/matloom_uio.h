/* Engines from Linux programs: registers and interrupt by UIO, memory by u-dma-buf.
 *
 * The engine's node of the device tree is compatible with "generic-uio", so that the kernel's driver
 * uio_pdrv_genirq serves it as /dev/uioN; a u-dma-buf is contiguous memory at an address of the bus,
 * as /dev/udmabufN. One thread at a time uses an opened pair. */
#ifndef MATLOOM_UIO_H
#define MATLOOM_UIO_H

#include "matloom.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which devices to open. */
struct matloom_uio_names {
  const char* root;      /* where dev and sys are: NULL for / */
  const char* registers; /* "uio0" */
  const char* memory;    /* "udmabuf0" */
};

/* An opened pair. Its members are those of linux_uio.c. */
struct matloom_uio {
  volatile uint32_t* registers;
  void* register_pages;
  void* memory;
  size_t register_bytes; /* of all pages that are mapped */
  size_t memory_bytes;
  uint32_t bus; /* address of the memory as the engine sees it */
  int events;   /* descriptor of the interrupt */
};

/* Opens and maps both devices. The mapping of the memory is uncached (O_SYNC), so that the port needs
 * no cache maintenance. On an error nothing stays open, and errno says more.
 * Errors: ARGUMENT (names too long), BUS (no registers, or a window too small), MEMORY (no memory, or
 * beyond the engine's 32 bits). */
enum matloom_result matloom_uio_open(struct matloom_uio* uio,
                                     const struct matloom_uio_names* names);

/* A port for matloom_probe. Runs sleep until the engine's interrupt; `milliseconds` is how long a run
 * or a reset may take, 0 forever. `uio` must stay where it is. */
struct matloom_port matloom_uio_port(struct matloom_uio* uio, uint32_t milliseconds);

/* The memory, for matloom_attach. */
struct matloom_memory matloom_uio_memory(const struct matloom_uio* uio);

/* Unmaps and closes; the engine must be idle. */
void matloom_uio_close(struct matloom_uio* uio);

#ifdef __cplusplus
}
#endif

#endif
