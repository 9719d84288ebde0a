/* Engines in Linux programs: registers and interrupt through UIO, memory through u-dma-buf.
 *
 * The engine's node in the device tree is compatible with "generic-uio", so the kernel's driver
 * uio_pdrv_genirq provides it as /dev/uioN; a u-dma-buf is contiguous memory at a bus address,
 * provided as /dev/udmabufN. Only one thread at a time may use an opened pair. */
#ifndef MATLOOM_UIO_H
#define MATLOOM_UIO_H

#include "matloom.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which devices to open. */
struct matloom_uio_names {
  const char* root;      /* folder of dev and sys; NULL for / */
  const char* registers; /* "uio0" */
  const char* memory;    /* "udmabuf0" */
};

/* An opened pair. Its members are private to linux_uio.c. */
struct matloom_uio {
  volatile uint32_t* registers;
  void* register_pages;
  void* memory;
  size_t register_bytes; /* of all pages that are mapped */
  size_t memory_bytes;
  uint32_t bus; /* address of the memory as the engine sees it */
  int events;   /* descriptor of the interrupt */
};

/* Opens and maps both devices. The mapping of the memory is uncached (O_SYNC), so the port needs no
 * cache maintenance. After an error nothing stays open, and errno says more. Errors: ARGUMENT
 * (names too long), BUS (no registers, or a window too small), MEMORY (no memory, or beyond the
 * engine's 32 bits). */
enum matloom_result matloom_uio_open(struct matloom_uio* uio,
                                     const struct matloom_uio_names* names);

/* A port for matloom_probe. Runs sleep until the engine's interrupt; `milliseconds` limits the time
 * of a run or a reset; 0: no limit. `uio` must stay at its address. */
struct matloom_port matloom_uio_port(struct matloom_uio* uio, uint32_t milliseconds);

/* The memory, for matloom_attach. */
struct matloom_memory matloom_uio_memory(const struct matloom_uio* uio);

/* Unmaps and closes; the engine must be idle. */
void matloom_uio_close(struct matloom_uio* uio);

#ifdef __cplusplus
}
#endif

#endif
