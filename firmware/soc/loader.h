/* The boot loader: receives an image over a serial line into memory, and reports the result.
 *
 * An image follows a header: a magic word, its size in bytes, and a CRC-32 over the bytes of the
 * size and the image. Words are little-endian; the constants are in matloom_regs.h. The loader
 * answers each image, and each header with an impossible size, with four bytes: "MLB" and a status.
 * It skips other bytes until the next magic word. So if bytes were lost, the host sends zeros until
 * it gets an answer, and then sends the image again. */
#ifndef MATLOOM_LOADER_H
#define MATLOOM_LOADER_H

#include "matloom.h"

/* Memory for the image, and a function to answer the host. */
struct matloom_loader_board {
  uint8_t* memory;
  uint32_t bytes; /* the largest image */
  void (*send)(void* context, const uint8_t* bytes, size_t count);
  void* context; /* passed to `send` */
};

/* A loader. Its members are private. */
struct matloom_loader {
  struct matloom_loader_board board;
  uint8_t header[MATLOOM_BOOT_HEADER_BYTES]; /* the latest bytes, until they are a header */
  uint32_t taken;                            /* bytes of the image so far */
  uint32_t size;                             /* of the image; 0 before its header */
};

/* Initialises the loader, and reports that it is ready. */
void matloom_loader_open(struct matloom_loader* loader, const struct matloom_loader_board* board);

/* Takes a byte from the line; returns true once an image is complete and acknowledged. */
bool matloom_loader_take(struct matloom_loader* loader, uint8_t byte);

#endif
