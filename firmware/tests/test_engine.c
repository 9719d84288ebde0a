/* Every call of an engine on a fake bus: what it does, and each way to fail.
 *
 * Arguments: Program files of digits (a step of the engine, one of the host), of a product with a
 * repetition, and of a streaming network whose variables are on the device. */
#include <string.h>

#include "check.h"
#include "fake_bus.h"

struct file {
  _Alignas(64) uint8_t bytes[65536];
  size_t size;
};

static struct file digits, product, streaming, remembering, sums;
static struct fake fake, second;
static struct matloom_engine engine;
static struct matloom_program program;
#define MOST_TENSORS 24u
static uint8_t data[MOST_TENSORS][4096];
static void* tensors[MOST_TENSORS];

static void read_file(struct file* file, const char* path) {
  FILE* stream = fopen(path, "rb");
  CHECK(stream != NULL);
  file->size = fread(file->bytes, 1, sizeof file->bytes, stream);
  CHECK(file->size < sizeof file->bytes);
  fclose(stream);
}

/* Opens a program and attaches it to a fresh fake. */
static void set_up(const struct file* file) {
  const struct matloom_port port = fake_port(&fake);
  const struct matloom_memory memory = fake_memory(&fake);
  EQUAL(matloom_program_open(&program, file->bytes, file->size), MATLOOM_OK);
  CHECK(matloom_program_tensors(&program) <= MOST_TENSORS);
  fake_open(&fake, program.digest);
  EQUAL(matloom_probe(&engine, &port), MATLOOM_OK);
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_OK);
  memset(data, 0, sizeof data);
  for (uint32_t i = 0; i < MOST_TENSORS; ++i) tensors[i] = data[i];
}

static void test_probe(void) {
  struct matloom_port port = fake_port(&fake);
  fake_open(&fake, 7);
  EQUAL(matloom_probe(&engine, &port), MATLOOM_OK);
  EQUAL(matloom_digest(&engine), 7);
  EQUAL(fake.resets, 1);
  EQUAL(fake.registers[3], 0);
  fake.registers[0] = 0x4d4c0007u;
  EQUAL(matloom_probe(&engine, &port), MATLOOM_ERROR_IDENTITY);
  fake_open(&fake, 7);
  fake.reset_polls = NEVER;
  EQUAL(matloom_probe(&engine, &port), MATLOOM_ERROR_TIMEOUT);
  EQUAL(matloom_start(&engine, 0), MATLOOM_ERROR_STATE);
}

static void test_probe_with_a_failing_bus(void) {
  const struct matloom_port port = fake_port(&fake);
  uint32_t failures = 0;
  do {
    fake_open(&fake, 7);
    fake.accesses_left = failures++;
  } while (matloom_probe(&engine, &port) == MATLOOM_ERROR_BUS);
  EQUAL(fake.accesses_left, 0);
  EQUAL(failures - 1u, fake.accesses); /* each access failed once */
  CHECK(failures > 5);
}

static void test_registers_in_memory(void) {
  static uint32_t window[512];
  struct matloom_port port = {.registers = window};
  window[0] = 0x4d4c0008u;
  window[1] = 99;
  EQUAL(matloom_probe(&engine, &port), MATLOOM_OK);
  EQUAL(matloom_digest(&engine), 99);
  EQUAL(window[2], 2); /* the reset */
  EQUAL(window[5], 3); /* interrupts acknowledged */
}

static void test_without_hooks_a_question_is_a_unit_of_time(void) {
  struct matloom_port port = fake_port(&fake);
  fake_open(&fake, 7);
  port.now = NULL;
  port.wait = NULL;
  port.timeout = 5;
  fake.reset_polls = 5;
  EQUAL(matloom_probe(&engine, &port), MATLOOM_OK);
  fake.reset_polls = 6;
  EQUAL(matloom_reset(&engine), MATLOOM_ERROR_TIMEOUT);
  fake.reset_polls = 100000;
  engine.port.timeout = 0;
  EQUAL(matloom_reset(&engine), MATLOOM_OK);
}

static void test_attach(void) {
  set_up(&digits);
  /* Regions by docs/registers.md: bases at 0x40, 0x50, 0x60, 0x70, sizes 8 bytes on. */
  EQUAL(fake.registers[0x40 / 4], 0x80000000u);
  EQUAL(fake.registers[0x48 / 4], 13568);
  EQUAL(fake.registers[0x50 / 4], 0x80000000u + 13568);
  EQUAL(fake.registers[0x58 / 4], 64);
  EQUAL(fake.registers[0x60 / 4], 0x80000000u + 13632);
  EQUAL(fake.registers[0x68 / 4], 64);
  EQUAL(fake.registers[0x70 / 4], 0x80000000u + 13696);
  EQUAL(fake.registers[0x78 / 4], 0);
  EQUAL(matloom_program_memory(&program, false), 13696);
  EQUAL(fake.cleans, 1);
  EQUAL(memcmp(fake.memory, digits.bytes + program.section[MATLOOM_SECTION_IMAGE].offset, 13568),
        0);
}

static void test_attach_refuses(void) {
  set_up(&digits);
  struct matloom_memory memory = fake_memory(&fake);
  memory.address = NULL;
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_ERROR_MEMORY);
  memory = fake_memory(&fake);
  memory.bus += 32;
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_ERROR_MEMORY);
  memory = fake_memory(&fake);
  memory.bytes = 13695;
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_ERROR_MEMORY);
  memory.bytes = 13696;
  memory.bus = (uint32_t)-13632;
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_ERROR_MEMORY);
  memory.bus = (uint32_t)-13696;
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_OK);
  memory = fake_memory(&fake);
  fake.accesses_left = 3;
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_ERROR_BUS);
  fake.accesses_left = NEVER;
  EQUAL(matloom_start(&engine, 0), MATLOOM_ERROR_STATE);
  ++engine.digest;
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_ERROR_DIGEST);
}

static void test_attach_in_place(void) {
  set_up(&digits);
  const struct matloom_memory memory = fake_memory(&fake);
  EQUAL(matloom_program_memory(&program, true), 128);
  EQUAL(matloom_attach_in_place(&engine, &program, &memory, 0x20000000u), MATLOOM_OK);
  EQUAL(fake.registers[0x40 / 4],
        0x20000000u + program.section[MATLOOM_SECTION_IMAGE].offset);
  EQUAL(fake.registers[0x48 / 4], 13568);
  EQUAL(fake.registers[0x50 / 4], 0x80000000u);
  EQUAL(matloom_attach_in_place(&engine, &program, &memory, 0x20000020u), MATLOOM_ERROR_MEMORY);
  EQUAL(matloom_attach_in_place(&engine, &program, &memory, 0xffffffc0u), MATLOOM_ERROR_MEMORY);
}

/* A step of the host: every byte of its output is its input's plus one. */
static bool add_one(void* context, const struct matloom_program* of, uint32_t step,
                    void* const* all) {
  const uint8_t* from = all[matloom_program_operand(of, step, false, 0)];
  uint8_t* to = all[matloom_program_operand(of, step, true, 0)];
  for (uint32_t i = 0; i < 10; ++i) to[i] = (uint8_t)(from[i] + 1);
  ++*(uint32_t*)context;
  return true;
}

static bool give_up(void* context, const struct matloom_program* of, uint32_t step,
                    void* const* all) {
  (void)context;
  (void)of;
  (void)step;
  (void)all;
  return false;
}

static void test_run(void) {
  uint32_t input, output, calls = 0;
  set_up(&digits);
  EQUAL(matloom_program_input(&program, 0, &input), MATLOOM_OK);
  EQUAL(matloom_program_output(&program, 0, &output), MATLOOM_OK);
  for (uint32_t i = 0; i < 64; ++i) data[input][i] = (uint8_t)(3 * i);
  EQUAL(matloom_run(&engine, tensors, add_one, &calls), MATLOOM_OK);
  EQUAL(calls, 1);
  EQUAL(fake.runs, 1);
  for (uint32_t i = 0; i < 10; ++i) EQUAL(data[output][i], (uint8_t)(~(3 * i) + 1));
  EQUAL(fake.registers[0x18 / 4], 11008); /* the command buffer */
  EQUAL(fake.registers[0x1c / 4], 2560);
  EQUAL(fake.registers[0x10 / 4], 0); /* no interrupts */
  CHECK(fake.barriers_at_start == 1 && fake.cleans_at_start == 2);
  CHECK(fake.barriers == 2 && fake.invalidates == 2 && fake.waits >= 3);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_ERROR_HOST);
  EQUAL(matloom_run(&engine, tensors, give_up, NULL), MATLOOM_ERROR_HOST);
  EQUAL(matloom_run(&engine, NULL, add_one, &calls), MATLOOM_ERROR_ARGUMENT);
}

static void test_run_in_place(void) {
  uint32_t input, logits;
  set_up(&product);
  EQUAL(matloom_program_input(&program, 0, &input), MATLOOM_OK);
  EQUAL(matloom_program_find(&program, "c", &logits), MATLOOM_OK);
  uint8_t* in = matloom_place(&engine, input);
  uint8_t* out = matloom_place(&engine, logits);
  CHECK(in >= fake.memory && out > in && out < fake.memory + FAKE_MEMORY_BYTES);
  void* places[MOST_TENSORS] = {0};
  places[input] = in;
  places[logits] = out;
  in[0] = 0x55;
  EQUAL(matloom_run(&engine, places, NULL, NULL), MATLOOM_OK);
  EQUAL(out[0], 0xaa);
  places[logits] = NULL;
  EQUAL(matloom_run(&engine, places, NULL, NULL), MATLOOM_ERROR_ARGUMENT);
  places[input] = NULL;
  EQUAL(matloom_run(&engine, places, NULL, NULL), MATLOOM_ERROR_ARGUMENT);
  EQUAL((uintptr_t)matloom_place(&engine, 99), 0);
  EQUAL((uintptr_t)matloom_place(&engine, 0x7fffffffu), 0); /* none of whose fields is read */
  engine.attached.program = NULL;
  EQUAL((uintptr_t)matloom_place(&engine, input), 0);
}

static void test_start_with_a_failing_bus(void) {
  enum matloom_result result = MATLOOM_ERROR_BUS;
  for (uint32_t passing = 0; result == MATLOOM_ERROR_BUS; ++passing) {
    set_up(&digits);
    fake.accesses_left = passing;
    result = matloom_start(&engine, 0);
    /* It may have been started only where nothing failed before. */
    EQUAL(fake.runs, passing >= 5);
    EQUAL(result, passing >= 5 ? MATLOOM_OK : MATLOOM_ERROR_BUS);
  }
  fake.accesses_left = 0;
  EQUAL(matloom_poll(&engine), MATLOOM_ERROR_BUS);
  EQUAL(matloom_wait(&engine), MATLOOM_ERROR_BUS);
  fake.accesses_left = NEVER;
  EQUAL(matloom_wait(&engine), MATLOOM_OK);
}

static void test_steps_that_are_not(void) {
  set_up(&digits);
  EQUAL(matloom_start(&engine, 1), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_write_inputs(&engine, 1, tensors), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_read_outputs(&engine, 1, tensors), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_write_inputs(&engine, 0, NULL), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_poll(&engine), MATLOOM_ERROR_STATE);
  EQUAL(matloom_wait(&engine), MATLOOM_ERROR_STATE);
}

static void test_one_run_at_a_time(void) {
  const struct matloom_memory memory = fake_memory(&fake);
  set_up(&digits);
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(matloom_poll(&engine), MATLOOM_BUSY);
  EQUAL(matloom_start(&engine, 0), MATLOOM_ERROR_STATE);
  EQUAL(matloom_write_inputs(&engine, 0, tensors), MATLOOM_ERROR_STATE);
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_ERROR_STATE);
  EQUAL(matloom_reset_state(&engine, tensors), MATLOOM_ERROR_STATE);
  EQUAL(matloom_wait(&engine), MATLOOM_OK);
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
}

static void test_busy_and_done(void) {
  set_up(&digits);
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  fake.left = NEVER;
  fake.registers[3] = 3; /* busy again with the done of a run before: not this run's end */
  EQUAL(matloom_poll(&engine), MATLOOM_BUSY);
  fake.registers[3] = 0; /* not begun */
  EQUAL(matloom_poll(&engine), MATLOOM_BUSY);
}

static void test_fault(void) {
  struct matloom_fault_record record;
  set_up(&digits);
  fake.fault = 0x325; /* cause 5 (DRAM_RANGE), unit 2 (EXEC), opcode 3 */
  fake.registers[0x28 / 4] = 17;
  fake.registers[0x2c / 4] = 0x1234;
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_ERROR_FAULT);
  EQUAL(matloom_fault(&engine, &record), MATLOOM_OK);
  CHECK(record.cause == 5 && record.unit == 2 && record.opcode == 3);
  CHECK(record.index == 17 && record.address == 0x1234);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_ERROR_STATE);
  EQUAL(matloom_read_outputs(&engine, 0, tensors), MATLOOM_ERROR_STATE);
  fake.accesses_left = 0;
  EQUAL(matloom_reset(&engine), MATLOOM_ERROR_BUS);
  EQUAL(matloom_start(&engine, 0), MATLOOM_ERROR_STATE);
  EQUAL(matloom_fault(&engine, &record), MATLOOM_ERROR_BUS);
  fake.accesses_left = NEVER;
  fake.fault = 0;
  EQUAL(matloom_reset(&engine), MATLOOM_OK);
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(matloom_wait(&engine), MATLOOM_OK);
}

static void test_timeout(void) {
  set_up(&digits);
  fake.busy_polls = NEVER;
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_ERROR_TIMEOUT);
  CHECK(fake.waits >= 98 && fake.waits <= 110); /* 100 ticks, a tick a question */
  EQUAL(matloom_start(&engine, 0), MATLOOM_ERROR_STATE);
  fake.busy_polls = 3;
  EQUAL(matloom_reset(&engine), MATLOOM_OK);
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(matloom_wait(&engine), MATLOOM_OK);
}

static void test_interrupts(void) {
  set_up(&digits);
  engine.port.interrupts = true;
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(fake.registers[0x10 / 4], 3);
  CHECK(!matloom_interrupt(&engine));
  EQUAL(matloom_wait(&engine), MATLOOM_OK);
  EQUAL(fake.registers[0x14 / 4], 1);
  CHECK(matloom_interrupt(&engine));
  EQUAL(fake.registers[0x14 / 4], 0);
  CHECK(!matloom_interrupt(&engine));
}

static void test_repetition(void) {
  set_up(&product);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_OK);
  const uint32_t first = fake.registers[0x18 / 4];
  CHECK(first != 1024);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_OK);
  EQUAL(fake.registers[0x18 / 4], 1024); /* weights are still there */
  EQUAL(fake.registers[0x1c / 4], 272);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_OK);
  EQUAL(fake.registers[0x18 / 4], 1024);
  EQUAL(matloom_reset(&engine), MATLOOM_OK);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_OK);
  EQUAL(fake.registers[0x18 / 4], first);
  const struct matloom_memory memory = fake_memory(&fake);
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_OK);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_OK);
  EQUAL(fake.registers[0x18 / 4], first);
}

static void test_numbers(void) {
  struct matloom_counters counters;
  uint32_t cycle;
  set_up(&digits);
  fake.registers[0x100 / 4] = 4711;
  fake.registers[0x14c / 4] = 12;
  fake.registers[0x404 / 4] = 333;
  EQUAL(matloom_counters(&engine, &counters), MATLOOM_OK);
  EQUAL(counters.value[MATLOOM_COUNTER_CYCLES], 4711);
  EQUAL(counters.value[MATLOOM_COUNTER_EXEC_WAIT_CONSTANTS], 12);
  EQUAL(matloom_timestamp(&engine, 1, &cycle), MATLOOM_OK);
  EQUAL(cycle, 333);
  EQUAL(matloom_timestamp(&engine, 255, &cycle), MATLOOM_OK);
  EQUAL(matloom_timestamp(&engine, 256, &cycle), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_watchdog(&engine, 77), MATLOOM_OK);
  EQUAL(fake.registers[0x20 / 4], 77);
  fake.accesses_left = 0;
  EQUAL(matloom_counters(&engine, &counters), MATLOOM_ERROR_BUS);
  EQUAL(matloom_timestamp(&engine, 1, &cycle), MATLOOM_ERROR_BUS);
  EQUAL(matloom_watchdog(&engine, 77), MATLOOM_ERROR_BUS);
}

static void test_two_engines(void) {
  const struct matloom_port port = fake_port(&second);
  const struct matloom_memory memory = fake_memory(&second);
  struct matloom_engine other;
  set_up(&product);
  fake_open(&second, program.digest);
  EQUAL(matloom_probe(&other, &port), MATLOOM_OK);
  EQUAL(matloom_attach(&other, &program, &memory), MATLOOM_OK);
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(matloom_start(&other, 0), MATLOOM_OK);
  second.fault = 1;
  EQUAL(matloom_wait(&other), MATLOOM_ERROR_FAULT);
  EQUAL(matloom_wait(&engine), MATLOOM_OK);
  CHECK(fake.runs == 1 && second.runs == 1);
}

static void test_variables_on_the_device(void) {
  set_up(&streaming);
  uint8_t* arena = engine.attached.region[MATLOOM_REGION_ARENA];
  const uint32_t bytes = fake.registers[0x78 / 4];
  uint8_t initial[1024];
  CHECK(bytes > 0 && bytes <= sizeof initial);
  memcpy(initial, arena, bytes);
  memset(arena, 0x77, bytes);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_OK);
  for (uint32_t i = 0; i < bytes; ++i) EQUAL(arena[i], 0x77); /* a run leaves it alone */
  EQUAL(matloom_reset_state(&engine, NULL), MATLOOM_OK);
  EQUAL(memcmp(arena, initial, 8), 0);
  fake.fault = 1;
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_ERROR_FAULT);
  fake.fault = 0;
  EQUAL(matloom_reset(&engine), MATLOOM_OK);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_ERROR_STATE); /* half a call */
  EQUAL(matloom_reset_state(&engine, NULL), MATLOOM_OK);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_OK);
}

static void test_variables_of_the_host(void) {
  uint32_t before, after, calls = 0;
  set_up(&remembering);
  EQUAL(matloom_program_find(&program, "before", &before), MATLOOM_OK);
  EQUAL(matloom_program_find(&program, "after", &after), MATLOOM_OK);
  EQUAL(matloom_run(&engine, tensors, add_one, &calls), MATLOOM_ERROR_STATE);
  EQUAL(matloom_reset_state(&engine, NULL), MATLOOM_ERROR_ARGUMENT);
  data[before][0] = 1;
  EQUAL(matloom_reset_state(&engine, tensors), MATLOOM_OK);
  for (uint8_t i = 0; i < 10; ++i) EQUAL(data[before][i], 100 + i);
  EQUAL(matloom_run(&engine, tensors, add_one, &calls), MATLOOM_OK);
  EQUAL(data[after][3], 104);
  EQUAL(data[before][3], 104);
  EQUAL(matloom_run(&engine, tensors, add_one, &calls), MATLOOM_OK);
  EQUAL(data[before][3], 105);
  void* shared[MOST_TENSORS];
  memcpy(shared, tensors, sizeof shared);
  shared[before] = shared[after];
  EQUAL(matloom_run(&engine, shared, add_one, &calls), MATLOOM_OK);
  engine.attached.program = NULL;
  EQUAL(matloom_reset_state(&engine, tensors), MATLOOM_ERROR_STATE);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_ERROR_STATE);
}

static void test_values_of_variables(void) {
  static uint8_t held[8][1024];
  const void* given[8];
  void* values[8];
  set_up(&streaming);
  const uint32_t variables = matloom_program_variables(&program);
  CHECK(variables > 0 && variables <= 8);
  for (uint32_t i = 0; i < 8; ++i) {
    memset(held[i], (int)(0x30 + i), sizeof held[i]);
    given[i] = values[i] = held[i];
  }
  EQUAL(matloom_write_state(&engine, NULL, given), MATLOOM_OK);
  const uint8_t* arena = engine.attached.region[MATLOOM_REGION_ARENA];
  EQUAL(arena[0], 0x30);
  const uint32_t invalidates = fake.invalidates;
  memset(held, 0, sizeof held);
  EQUAL(matloom_read_state(&engine, NULL, values), MATLOOM_OK);
  EQUAL(fake.invalidates, invalidates + variables);
  for (uint32_t i = 0; i < variables; ++i) EQUAL(held[i][0], 0x30 + i);
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(matloom_read_state(&engine, NULL, values), MATLOOM_ERROR_STATE);
  EQUAL(matloom_write_state(&engine, NULL, given), MATLOOM_ERROR_STATE);
  set_up(&remembering);
  EQUAL(matloom_read_state(&engine, tensors, values), MATLOOM_ERROR_STATE); /* no call yet */
  EQUAL(matloom_write_state(&engine, tensors, given), MATLOOM_OK);
  EQUAL(matloom_read_state(&engine, NULL, values), MATLOOM_ERROR_ARGUMENT);
  held[0][3] = 0;
  EQUAL(matloom_read_state(&engine, tensors, values), MATLOOM_OK);
  EQUAL(matloom_write_state(&engine, NULL, given), MATLOOM_ERROR_ARGUMENT);
  engine.attached.program = NULL;
  EQUAL(matloom_read_state(&engine, tensors, values), MATLOOM_ERROR_STATE);
}

static void test_programs_that_alternate(void) {
  static struct matloom_program first;
  struct matloom_memory memory = fake_memory(&fake);
  struct matloom_attached other = {0};
  uint32_t calls = 0;
  set_up(&digits);
  first = program;
  EQUAL(matloom_attach(&engine, &first, &memory), MATLOOM_OK);
  const uint32_t bytes = matloom_program_memory(&first, false);
  memory.address = (uint8_t*)memory.address + bytes;
  memory.bus += bytes;
  memory.bytes -= bytes;
  matloom_exchange(&engine, &other);
  EQUAL(matloom_start(&engine, 0), MATLOOM_ERROR_STATE); /* none is attached */
  EQUAL(matloom_program_open(&program, product.bytes, product.size), MATLOOM_OK);
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_OK);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_OK);
  EQUAL(fake.registers[0x40 / 4], 0x80000000u + bytes);
  const uint32_t shorter = (matloom_start(&engine, 0), fake.registers[0x18 / 4]);
  EQUAL(matloom_wait(&engine), MATLOOM_OK);
  matloom_exchange(&engine, &other);
  EQUAL(matloom_run(&engine, tensors, add_one, &calls), MATLOOM_OK);
  EQUAL(fake.registers[0x40 / 4], 0x80000000u);
  EQUAL(fake.registers[0x48 / 4], 13568);
  matloom_exchange(&engine, &other);
  matloom_exchange(&engine, &other); /* nothing ran in between */
  EQUAL(engine.resident, 0);
  matloom_exchange(&engine, &other);
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(fake.registers[0x40 / 4], 0x80000000u + bytes);
  CHECK(fake.registers[0x18 / 4] != shorter); /* its weights were replaced */
  matloom_exchange(&engine, &(struct matloom_attached){0});
  EQUAL(matloom_reset(&engine), MATLOOM_OK); /* of a run whose program is not attached */
}

static int32_t little_endian(const uint8_t* bytes) {
  return (int32_t)((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                   (uint32_t)bytes[3] << 24);
}

static void test_sums_of_32_bits(void) {
  uint32_t logits;
  uint8_t sums_found[40];
  set_up(&sums);
  EQUAL(matloom_program_find(&program, "logits", &logits), MATLOOM_OK);
  EQUAL((uintptr_t)matloom_place(&engine, logits), 0);
  tensors[logits] = sums_found;
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(matloom_wait(&engine), MATLOOM_OK);
  int8_t* planes = (int8_t*)engine.attached.region[MATLOOM_REGION_OUTPUT];
  memset(planes, 0, 40);
  planes[0] = -1; /* -1 + 2 * 256 - 3 * 32768 + 4 * 4194304 */
  planes[10] = 2;
  planes[20] = -3;
  planes[30] = 4;
  planes[39] = -128;
  EQUAL(matloom_read_outputs(&engine, 0, tensors), MATLOOM_OK);
  EQUAL(little_endian(sums_found), -1 + 512 - 98304 + 16777216);
  EQUAL(little_endian(sums_found + 36), -536870912);
  tensors[logits] = planes;
  EQUAL(matloom_read_outputs(&engine, 0, tensors), MATLOOM_ERROR_ARGUMENT);
}

static void test_without_cache(void) {
  uint32_t calls = 0;
  set_up(&digits);
  engine.port.clean = NULL;
  engine.port.invalidate = NULL;
  engine.port.barrier = NULL;
  const struct matloom_memory memory = fake_memory(&fake);
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_OK);
  EQUAL(matloom_run(&engine, tensors, add_one, &calls), MATLOOM_OK);
  set_up(&streaming);
  engine.port.clean = NULL;
  EQUAL(matloom_reset_state(&engine, NULL), MATLOOM_OK);
}

static void test_reset_of_a_run(void) {
  set_up(&streaming);
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(matloom_reset(&engine), MATLOOM_OK);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_ERROR_STATE);
  EQUAL(matloom_reset_state(&engine, NULL), MATLOOM_OK);
  EQUAL(matloom_run(&engine, tensors, NULL, NULL), MATLOOM_OK);
}

static void test_what_a_program_says(void) {
  struct matloom_tensor tensor;
  struct matloom_step_info info;
  uint32_t number;
  set_up(&digits);
  EQUAL(matloom_program_steps(&program), 2);
  EQUAL(matloom_program_input(&program, 0, &number), MATLOOM_OK);
  EQUAL(matloom_program_tensor(&program, number, &tensor), MATLOOM_OK);
  EQUAL(strcmp(tensor.name, "image"), 0);
  CHECK(tensor.name_bytes == 5 && tensor.dtype == 5 && tensor.bytes == 64 && tensor.axes == 4);
  EQUAL(tensor.zero_point, -128);
  double scale;
  memcpy(&scale, &tensor.scale, sizeof scale);
  CHECK(scale == 0.003921566531062126);
  EQUAL(matloom_program_axis(&program, number, 0), 1);
  EQUAL(matloom_program_axis(&program, number, 1), 8);
  EQUAL(matloom_program_step(&program, 0, &info), MATLOOM_OK);
  CHECK(info.kind == 0 && info.index == 0 && info.inputs == 1 && info.outputs == 1);
  EQUAL(matloom_program_operand(&program, 0, false, 0), (int32_t)number);
  EQUAL(matloom_program_step(&program, 1, &info), MATLOOM_OK);
  CHECK(info.kind == 1 && info.index == 0 && info.operator_number == 25); /* SOFTMAX */
  EQUAL(matloom_program_find(&program, "imag", &number), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_program_find(&program, "images", &number), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_program_input(&program, 1, &number), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_program_output(&program, 1, &number), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_program_tensor(&program, 99, &tensor), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_program_step(&program, 2, &info), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_program_open(NULL, digits.bytes, 1), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_program_open(&program, NULL, 1), MATLOOM_ERROR_ARGUMENT);
  EQUAL(matloom_program_open(&program, digits.bytes + 1, 1), MATLOOM_ERROR_ARGUMENT);
}

static void test_a_file_that_was_linked(void) {
  struct matloom_program linked;
  uint32_t calls = 0;
  set_up(&digits);
  EQUAL(matloom_program_use(&linked, digits.bytes, digits.size), MATLOOM_OK);
  EQUAL(memcmp(&linked, &program, sizeof linked), 0);
  const struct matloom_memory memory = fake_memory(&fake);
  EQUAL(matloom_attach(&engine, &linked, &memory), MATLOOM_OK);
  EQUAL(matloom_run(&engine, tensors, add_one, &calls), MATLOOM_OK);
  ++digits.bytes[digits.size - 1];
  EQUAL(matloom_program_use(&linked, digits.bytes, digits.size), MATLOOM_ERROR_CHECKSUM);
  --digits.bytes[digits.size - 1];
}

static void test_texts(void) {
  for (int i = 0; i <= MATLOOM_ERROR_HOST; ++i) {
    for (int j = 0; j < i; ++j) {
      CHECK(strcmp(matloom_result_text((enum matloom_result)i),
                   matloom_result_text((enum matloom_result)j)) != 0);
    }
  }
  EQUAL(strcmp(matloom_result_text(MATLOOM_ERROR_TIMEOUT), "no end in time"), 0);
  EQUAL(strcmp(matloom_result_text((enum matloom_result)99), "unknown result"), 0);
  EQUAL(strcmp(matloom_fault_text(11), "no progress in time"), 0);
  EQUAL(strcmp(matloom_fault_text(12), "unknown fault"), 0);
}

int main(int count, char** paths) {
  EQUAL(count, 6);
  struct file* const files[] = {&digits, &product, &streaming, &remembering, &sums};
  for (int i = 0; i < 5; ++i) read_file(files[i], paths[i + 1]);
  static void (*const tests[])(void) = {
      test_probe, test_probe_with_a_failing_bus, test_registers_in_memory,
      test_without_hooks_a_question_is_a_unit_of_time, test_attach, test_attach_refuses,
      test_attach_in_place, test_run, test_run_in_place, test_start_with_a_failing_bus,
      test_steps_that_are_not, test_one_run_at_a_time, test_busy_and_done, test_fault,
      test_timeout, test_interrupts, test_repetition, test_numbers, test_two_engines,
      test_variables_on_the_device, test_variables_of_the_host, test_values_of_variables,
      test_programs_that_alternate, test_sums_of_32_bits,
      test_without_cache, test_reset_of_a_run, test_what_a_program_says,
      test_a_file_that_was_linked, test_texts};
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; ++i) tests[i]();
  printf("%zu tests\n", sizeof tests / sizeof tests[0]);
  return 0;
}
