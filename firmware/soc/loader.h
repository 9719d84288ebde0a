/* The boot loader: takes an image over a serial line into memory, and says what became of it.
 *
 * An image comes after a header: a magic word, its size in bytes, and a CRC-32 over the bytes of the
 * size and the image. Words are little-endian, numbers are in matloom_regs.h. Each image, and each
 * header of an impossible size, is answered by four bytes: "MLB" and a status. Bytes in between are
 * skipped until the next magic word, so that a host that lost bytes sends zeros until it is answered, and
 * then the image again. */
#ifndef MATLOOM_LOADER_H
#define MATLOOM_LOADER_H

#include "matloom.h"

/* What an image is taken into, and how a host is answered. */
struct matloom_loader_board {
  uint8_t* memory;
  uint32_t bytes; /* the largest image */
  void (*send)(void* context, const uint8_t* bytes, size_t count);
  void* context; /* given to `send` */
};

/* A loader. Its members are the loader's. */
struct matloom_loader {
  struct matloom_loader_board board;
  uint8_t header[MATLOOM_BOOT_HEADER_BYTES]; /* the last bytes while a header is looked for */
  uint32_t taken;                            /* bytes of the image */
  uint32_t size;                             /* of the image; 0 before its header came */
};

/* Begins, and says that it is ready. */
void matloom_loader_open(struct matloom_loader* loader, const struct matloom_loader_board* board);

/* Takes a byte from the line; returns true once an image is there whole, which the host was told. */
bool matloom_loader_take(struct matloom_loader* loader, uint8_t byte);

#endif
