/* The firmware's end of the host link, with plain words for registers, between two pipes.
 *
 * Input: a size, 32 bits little-endian, and as many bytes of the line; or the size 0xffffffff, which
 * restarts the device. Output, for each: a size, and as many bytes that answer them. */
#include <string.h>

#include "check.h"
#include "matloom_link.h"

#define MEMORY_BYTES 0x4000u
#define RESTART 0xffffffffu

static uint8_t memory[MEMORY_BYTES], answer[1u << 20];
static uint32_t registers[512];
static size_t answered;

static void send(void* context, const uint8_t* bytes, size_t count) {
  CHECK(context == registers && answered + count <= sizeof answer);
  memcpy(answer + answered, bytes, count);
  answered += count;
}

static bool read_register(void* context, uint32_t offset, uint32_t* value) {
  *value = ((uint32_t*)context)[offset / 4];
  return true;
}

static bool write_register(void* context, uint32_t offset, uint32_t value) {
  ((uint32_t*)context)[offset / 4] = value;
  return true;
}

int main(int count, char** arguments) {
  /* Registers are memory, or reached by functions where an argument says so. */
  struct matloom_link_board board = {.name = "python",
                                     .clock_hz = 1000000,
                                     .memory = {memory, 0x1000, MEMORY_BYTES},
                                     .port = {.registers = registers},
                                     .send = send,
                                     .context = registers};
  static struct matloom_link link;
  uint32_t size;
  (void)arguments;
  if (count > 1) {
    board.port.read32 = read_register;
    board.port.write32 = write_register;
    board.port.context = registers;
  }
  matloom_link_open(&link, &board);
  while (fread(&size, sizeof size, 1, stdin) == 1) {
    answered = 0;
    if (size == RESTART) matloom_link_open(&link, &board);
    for (uint32_t i = 0; size != RESTART && i < size; ++i) {
      matloom_link_take(&link, (uint8_t)getchar());
    }
    size = (uint32_t)answered;
    fwrite(&size, sizeof size, 1, stdout);
    fwrite(answer, 1, answered, stdout);
    fflush(stdout);
  }
  return 0;
}
