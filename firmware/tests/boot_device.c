/* The boot loader between two pipes, with memory for images of 4,096 bytes.
 *
 * Input and output as those of link_device.c. Once an image is there, bytes are answered by the whole
 * memory. */
#include <string.h>

#include "check.h"
#include "loader.h"

#define MEMORY_BYTES 4096u
#define RESTART 0xffffffffu

static uint8_t memory[MEMORY_BYTES], out[1u << 16];
static size_t used;

static void send(void* context, const uint8_t* bytes, size_t count) {
  CHECK(context == memory && used + count <= sizeof out);
  memcpy(out + used, bytes, count);
  used += count;
}

int main(void) {
  const struct matloom_loader_board board = {memory, MEMORY_BYTES, send, memory};
  struct matloom_loader loader;
  uint32_t size;
  bool started = false;
  while (fread(&size, sizeof size, 1, stdin) == 1) {
    used = 0;
    if (size == RESTART) matloom_loader_open(&loader, &board);
    if (started) send(memory, memory, MEMORY_BYTES);
    for (uint32_t i = 0; size != RESTART && i < size; ++i) {
      const uint8_t byte = (uint8_t)getchar();
      started = started || matloom_loader_take(&loader, byte);
    }
    size = (uint32_t)used;
    fwrite(&size, sizeof size, 1, stdout);
    fwrite(out, 1, used, stdout);
    fflush(stdout);
  }
  return 0;
}
