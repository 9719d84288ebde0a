/* The boot loader: a header, an image, an answer. */
#include "loader.h"

static uint32_t word(const uint8_t* bytes) {
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
         (uint32_t)bytes[3] << 24;
}

static void answer(const struct matloom_loader* loader, enum matloom_boot_status status) {
  const uint8_t bytes[] = {'M', 'L', 'B', (uint8_t)status};
  loader->board.send(loader->board.context, bytes, sizeof bytes);
}

void matloom_loader_open(struct matloom_loader* loader, const struct matloom_loader_board* board) {
  const struct matloom_loader empty = {.board = *board};
  *loader = empty;
  answer(loader, MATLOOM_BOOT_STATUS_READY);
}

/* Takes a byte while waiting for a header. */
static void take_header(struct matloom_loader* loader, uint8_t byte) {
  uint8_t* header = loader->header;
  for (uint32_t i = 1; i < sizeof loader->header; ++i) header[i - 1u] = header[i];
  header[sizeof loader->header - 1u] = byte;
  if (word(header) != MATLOOM_BOOT_MAGIC) return;
  loader->size = word(header + MATLOOM_BOOT_HEADER_LENGTH_OFFSET);
  loader->taken = 0;
  if (loader->size - 1u >= loader->board.bytes) { /* 0 is impossible, too */
    loader->size = 0;
    header[0] = 0; /* do not use the same word again */
    answer(loader, MATLOOM_BOOT_STATUS_LENGTH);
  }
}

/* Whether the image has the checksum in its header. */
static bool is_whole(const struct matloom_loader* loader) {
  const uint32_t sum = matloom_checksum(0, loader->header + MATLOOM_BOOT_HEADER_LENGTH_OFFSET, 4);
  return matloom_checksum(sum, loader->board.memory, loader->size) ==
         word(loader->header + MATLOOM_BOOT_HEADER_CHECKSUM_OFFSET);
}

/* Answers once all bytes of an image have arrived. */
static bool end_image(struct matloom_loader* loader) {
  const bool whole = is_whole(loader);
  loader->size = 0;
  loader->header[0] = 0;
  answer(loader, whole ? MATLOOM_BOOT_STATUS_OKAY : MATLOOM_BOOT_STATUS_CHECKSUM);
  return whole;
}

bool matloom_loader_take(struct matloom_loader* loader, uint8_t byte) {
  /* Read each member once: without a data cache, an access takes as long as several
   * instructions. */
  const uint32_t size = loader->size;
  if (size == 0) {
    take_header(loader, byte);
    return false;
  }
  const uint32_t taken = loader->taken + 1u;
  loader->taken = taken;
  loader->board.memory[taken - 1u] = byte;
  if (taken < size) return false;
  return end_image(loader);
}
