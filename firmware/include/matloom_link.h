/* The device's end of the host link (docs/link.md) on a processor: what `rtl/matloom_rtl/link` is in
 * gateware. A host then reaches the engine's registers and memory over a serial line, as on a board
 * without a processor.
 *
 * C11, freestanding, no allocation, no variables of its own: all that is remembered lies in a
 * `struct matloom_link`, which the caller provides.
 */
#ifndef MATLOOM_LINK_H
#define MATLOOM_LINK_H

#include "matloom.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MATLOOM_LINK_FRAME_BYTES \
  (MATLOOM_LINK_REQUEST_HEADER_BYTES + MATLOOM_LINK_MAX_DATA_BYTES + MATLOOM_LINK_CRC_BYTES)

/* What a host is told of, and how it is answered. */
struct matloom_link_board {
  const char* name;             /* at most 16 characters, ASCII */
  uint32_t clock_hz;            /* of the engine; not 0 */
  uint32_t digest;              /* of the engine's configuration: its register DIGEST */
  struct matloom_memory memory; /* what the host may read and write */
  /* Registers, and hooks for caches, as the driver's; `wait` and `now` are not used. */
  struct matloom_port port;
  /* Waits for the engine's interrupt, for so many cycles at most; returns those that passed. Where
   * NULL, each question for the interrupt counts as a cycle. */
  uint32_t (*await)(void* context, uint32_t cycles);
  /* Sends bytes to the host, in their order. */
  void (*send)(void* context, const uint8_t* bytes, size_t count);
  void* context; /* given to `await` and `send` */
};

/* A link. Its members are the link's. */
struct matloom_link {
  struct matloom_link_board board;
  uint8_t frame[MATLOOM_LINK_FRAME_BYTES]; /* of the request that comes, without stuffing */
  uint32_t used;
  uint32_t left;   /* bytes until the next that says where a zero is */
  bool zero;       /* a zero follows, unless the frame ends */
  bool started;    /* a byte came since the last delimiter */
  bool damaged;    /* more bytes came than a request has */
  bool awake;      /* a delimiter came since the reset: before it, bytes are of no whole request */
  bool session;    /* a hello came since the reset */
  bool fresh;      /* the answer to the last hello said so */
  uint8_t due;     /* number of the next request */
  uint8_t kept[MATLOOM_LINK_WINDOW_REQUESTS]; /* statuses, by number */
  uint32_t sum;    /* of the reply that is sent */
};

/* Begins as after a reset. */
void matloom_link_open(struct matloom_link* link, const struct matloom_link_board* board);

/* Takes a byte that came from the host. At the end of a request, does it and sends the reply, before it
 * returns. Not for an interrupt handler: let that keep bytes, at least
 * MATLOOM_LINK_BUFFER_BYTES, while a request is done. */
void matloom_link_take(struct matloom_link* link, uint8_t byte);

#ifdef __cplusplus
}
#endif

#endif
