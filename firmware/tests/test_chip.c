/* The driver on the chip's Verilog: runs the step of the engine of a network for each input.
 *
 * Arguments: a Program file; `copy`, or `place` to let the engine read the image where the file
 * lies, and to write inputs and read outputs in their places. Input: the network's inputs, one after
 * the other. Output: the step's outputs; last, on standard error, the cycles of the last run. */
#include <string.h>

#include "board.h"
#include "check.h"

static struct matloom_program program;
static struct matloom_engine engine;
static uint8_t data[16][4096];
static void* tensors[16];
static _Alignas(64) uint8_t file[65536];

static size_t read_file(const char* path, uint8_t* to, size_t bytes) {
  FILE* stream = fopen(path, "rb");
  CHECK(stream != NULL);
  const size_t found = fread(to, 1, bytes, stream);
  fclose(stream);
  return found;
}

/* Opens the file where the engine reaches it, at the end of the board's memory. */
static void open_in_place(const char* path, struct matloom_memory memory) {
  const uint32_t half = memory.bytes / 2;
  uint8_t* flash = (uint8_t*)memory.address + half;
  const size_t bytes = read_file(path, flash, half);
  memory.bytes = half;
  EQUAL(matloom_program_open(&program, flash, bytes), MATLOOM_OK);
  EQUAL(matloom_attach_in_place(&engine, &program, &memory, memory.bus + half), MATLOOM_OK);
}

static void open_copied(const char* path, struct matloom_memory memory) {
  const size_t bytes = read_file(path, file, sizeof file);
  EQUAL(matloom_program_open(&program, file, bytes), MATLOOM_OK);
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_OK);
}

/* A command buffer that the engine refuses: the fault and the way out of it, on real registers. */
static void check_fault(void) {
  struct matloom_fault_record record;
  uint8_t* commands = engine.attached.region[MATLOOM_REGION_PROGRAM] + 11008;
  const uint8_t saved = commands[0];
  commands[0] = 0xf; /* no opcode */
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(matloom_wait(&engine), MATLOOM_ERROR_FAULT);
  EQUAL(matloom_fault(&engine, &record), MATLOOM_OK);
  CHECK(record.cause == 1 && record.opcode == 15 && record.index == 0);
  EQUAL(matloom_reset(&engine), MATLOOM_OK);
  commands[0] = saved;
}

int main(int count, char** arguments) {
  const struct matloom_port port = board_port();
  uint32_t input;
  EQUAL(count, 3);
  EQUAL(matloom_probe(&engine, &port), MATLOOM_OK);
  const bool in_place = strcmp(arguments[2], "place") == 0;
  (in_place ? open_in_place : open_copied)(arguments[1], board_memory());
  EQUAL(matloom_program_input(&program, 0, &input), MATLOOM_OK);
  const uint32_t output = (uint32_t)matloom_program_operand(&program, 0, true, 0);
  for (uint32_t i = 0; i < 16; ++i) tensors[i] = data[i];
  if (in_place) tensors[input] = matloom_place(&engine, input);
  if (in_place) tensors[output] = matloom_place(&engine, output);
  if (!in_place) check_fault();
  struct matloom_tensor in, out;
  EQUAL(matloom_program_tensor(&program, input, &in), MATLOOM_OK);
  EQUAL(matloom_program_tensor(&program, output, &out), MATLOOM_OK);
  while (fread(tensors[input], 1, in.bytes, stdin) == in.bytes) {
    EQUAL(matloom_write_inputs(&engine, 0, tensors), MATLOOM_OK);
    EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
    EQUAL(matloom_wait(&engine), MATLOOM_OK);
    EQUAL(matloom_read_outputs(&engine, 0, tensors), MATLOOM_OK);
    fwrite(tensors[output], 1, out.bytes, stdout);
  }
  struct matloom_counters counters;
  EQUAL(matloom_counters(&engine, &counters), MATLOOM_OK);
  fprintf(stderr, "%u\n", counters.value[MATLOOM_COUNTER_CYCLES]);
  CHECK(matloom_interrupt(&engine));
  CHECK(!matloom_interrupt(&engine));
  return 0;
}
