/* The device's end of the host link (docs/link.md) on a processor, the counterpart of
 * `rtl/matloom_rtl/link`. A host can then access the engine's registers and memory over a serial
 * line, as on a board without a processor.
 *
 * C11, freestanding, no allocation, no global variables: all state is in a `struct matloom_link`,
 * which the caller provides.
 */
#ifndef MATLOOM_LINK_H
#define MATLOOM_LINK_H

#include "matloom.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MATLOOM_LINK_FRAME_BYTES \
  (MATLOOM_LINK_REQUEST_HEADER_BYTES + MATLOOM_LINK_MAX_DATA_BYTES + MATLOOM_LINK_CRC_BYTES)

/* Facts for the host, and functions to answer it. */
struct matloom_link_board {
  const char* name;             /* at most 16 characters, ASCII */
  uint32_t clock_hz;            /* of the engine; not 0 */
  uint32_t digest;              /* of the engine's configuration: its register DIGEST */
  struct matloom_memory memory; /* what the host may read and write */
  /* Registers and hooks for caches, as for the driver; `wait` and `now` are not used. */
  struct matloom_port port;
  /* Waits for the engine's interrupt, at most `cycles`; returns the cycles that passed. If NULL,
   * each poll counts as a cycle. */
  uint32_t (*await)(void* context, uint32_t cycles);
  /* Sends bytes to the host, in order. */
  void (*send)(void* context, const uint8_t* bytes, size_t count);
  void* context; /* passed to `await` and `send` */
};

/* A link. Its members are private. */
struct matloom_link {
  struct matloom_link_board board;
  uint8_t frame[MATLOOM_LINK_FRAME_BYTES]; /* the request so far, without stuffing */
  uint32_t used;
  uint32_t left;   /* bytes until the next code byte */
  bool zero;       /* a zero follows, unless the frame ends */
  bool started;    /* a byte has arrived since the last delimiter */
  bool damaged;    /* more bytes than a request can have */
  bool awake;      /* a delimiter has arrived since the reset; earlier bytes are ignored */
  bool session;    /* a hello has arrived since the reset */
  bool fresh;      /* as in the reply to the last hello */
  uint8_t due;     /* number of the next request */
  uint8_t kept[MATLOOM_LINK_WINDOW_REQUESTS]; /* statuses, by number */
  uint32_t sum;    /* checksum of the reply so far */
};

/* Begins as after a reset. */
void matloom_link_open(struct matloom_link* link, const struct matloom_link_board* board);

/* Takes a byte from the host. At the end of a request, carries it out and sends the reply before it
 * returns. Do not call it in an interrupt handler: buffer bytes there, at least
 * MATLOOM_LINK_BUFFER_BYTES, while a request is carried out. */
void matloom_link_take(struct matloom_link* link, uint8_t byte);

#ifdef __cplusplus
}
#endif

#endif
