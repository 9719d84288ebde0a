/* Opens Program files that are mutated at random, under AddressSanitizer: no case may read beyond
 * the file, and every call on an accepted file must be safe.
 *
 * Arguments: number of cases, seed, Program files. Each case changes 1 to 8 words or bytes, most
 * often with a repaired checksum, so that later rules are tested, too. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "matloom.h"

#define MOST_FILES 32

struct sample {
  uint8_t* bytes;
  size_t size;
};

static struct sample samples[MOST_FILES];
static uint64_t state;

/* The usual xorshift64*. */
static uint32_t draw(uint32_t limit) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (uint32_t)((state * 0x2545f4914f6cdd1dull) >> 33) % limit;
}

/* CRC-32, written independently of the driver's. */
static uint32_t checksum(const uint8_t* bytes, size_t size) {
  static uint32_t table[256];
  if (table[1] == 0) {
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
      table[i] = value;
    }
  }
  uint32_t sum = ~0u;
  for (size_t i = 0; i < size; ++i) sum = sum >> 8 ^ table[(sum ^ bytes[i]) & 255];
  return ~sum;
}

static void put32(uint8_t* bytes, uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[i] = (uint8_t)(value >> 8 * i);
}

static void read_sample(struct sample* sample, const char* path) {
  FILE* stream = fopen(path, "rb");
  CHECK(stream != NULL);
  sample->bytes = malloc(1 << 20);
  CHECK(sample->bytes != NULL);
  sample->size = fread(sample->bytes, 1, 1 << 20, stream);
  fclose(stream);
}

/* Changes a word or a byte; three in four are in the first part, where most tables are. */
static void mutate(uint8_t* file, size_t size) {
  static const uint32_t values[] = {0, 1, 2, 16, 64, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff0};
  const uint32_t at = draw((uint32_t)size / 4) * 4;
  uint8_t* word = file + at;
  const uint32_t now = (uint32_t)word[0] | (uint32_t)word[1] << 8 | (uint32_t)word[2] << 16 |
                       (uint32_t)word[3] << 24;
  switch (draw(5)) {
    case 0:
      put32(word, values[draw(sizeof values / sizeof values[0])]);
      break;
    case 1:
      put32(word, now + draw(5) - 2);
      break;
    case 2:
      put32(word, now ^ 1u << draw(32));
      break;
    case 3:
      memcpy(word, file + draw((uint32_t)size / 4) * 4, 4);
      break;
    default:
      word[draw(4)] = (uint8_t)draw(256);
  }
}

/* Calls every function on an accepted program. */
static void ask(const struct matloom_program* program) {
  struct matloom_tensor tensor;
  struct matloom_step_info info;
  uint32_t number = 0, sum = matloom_program_memory(program, false);
  for (uint32_t i = 0; matloom_program_tensor(program, i, &tensor) == MATLOOM_OK; ++i) {
    for (uint32_t axis = 0; axis < tensor.axes; ++axis) sum += matloom_program_axis(program, i, axis);
    sum += (uint32_t)strlen(tensor.name);
  }
  for (uint32_t i = 0; matloom_program_step(program, i, &info) == MATLOOM_OK; ++i) {
    for (uint32_t j = 0; j < info.inputs; ++j) {
      const int32_t operand = matloom_program_operand(program, i, false, j);
      if (operand < 0) {
        sum += ((uintptr_t)matloom_program_constant(program, (uint32_t)(-1 - operand)) & 15) != 0;
      }
    }
    for (uint32_t j = 0; j < info.outputs; ++j) {
      CHECK(matloom_program_operand(program, i, true, j) >= 0);
    }
  }
  (void)matloom_program_find(program, "no such name", &number);
  (void)matloom_program_input(program, sum % 7, &number);
  (void)matloom_program_output(program, sum % 7, &number);
}

static bool run_case(void) {
  uint32_t last = 0;
  while (last < MOST_FILES && samples[last].bytes != NULL) ++last;
  const struct sample* sample = &samples[draw(last)];
  size_t size = sample->size;
  if (draw(50) == 0) size = draw((uint32_t)size);
  uint8_t* file = malloc(size == 0 ? 1 : size);
  CHECK(file != NULL);
  memcpy(file, sample->bytes, size);
  const uint32_t changes = 1u << draw(4);
  for (uint32_t i = 0; i < changes && size >= 4; ++i) mutate(file, size);
  if (size >= 32 && draw(20) != 0) {
    memcpy(file, sample->bytes, 12); /* most often with magic and format */
    put32(file + 16, (uint32_t)size);
    put32(file + 12, checksum(file + 16, size - 16));
  }
  struct matloom_program program;
  const bool accepted = matloom_program_open(&program, file, size) == MATLOOM_OK;
  if (accepted) ask(&program);
  free(file);
  return accepted;
}

int main(int count, char** arguments) {
  CHECK(count > 3 && count - 3 < MOST_FILES);
  const unsigned long cases = strtoul(arguments[1], NULL, 10);
  unsigned long accepted = 0;
  state = strtoull(arguments[2], NULL, 10) * 2 + 1;
  for (int i = 3; i < count; ++i) read_sample(&samples[i - 3], arguments[i]);
  for (unsigned long i = 0; i < cases; ++i) accepted += run_case();
  printf("%lu cases, %lu accepted\n", cases, accepted);
  for (int i = 3; i < count; ++i) free(samples[i - 3].bytes);
  return 0;
}
