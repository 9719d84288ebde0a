/* Opens Program files from standard input and prints what each call says: for comparison.
 *
 * Input: for each file its size, 32 bits little-endian, and its bytes. Each file lies in memory of
 * just its size, so that a read beyond it is seen by AddressSanitizer. Output: a line for each
 * file, its result, section, record and offset. */
#include <stdio.h>
#include <stdlib.h>

#include "matloom.h"

static void describe(const void* file, uint32_t bytes) {
  struct matloom_program program;
  const enum matloom_result result = matloom_program_open(&program, file, bytes);
  printf("%d %u %u %u\n", (int)result, program.problem.section, program.problem.record,
         program.problem.offset);
}

int main(void) {
  uint8_t size[4];
  while (fread(size, 1, sizeof size, stdin) == sizeof size) {
    const uint32_t bytes = (uint32_t)size[0] | (uint32_t)size[1] << 8 | (uint32_t)size[2] << 16 |
                           (uint32_t)size[3] << 24;
    uint8_t* file = malloc(bytes == 0 ? 1 : bytes);
    if (file == NULL || fread(file, 1, bytes, stdin) != bytes) return 1;
    describe(file, bytes);
    free(file);
  }
  return 0;
}
