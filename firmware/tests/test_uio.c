/* UIO against a tree of files: registers and memory are files that are mapped, and the system calls
 * that stand for the interrupt are those below, by the linker's --wrap. The engine works while
 * the driver sleeps.
 *
 * Arguments: root of a tree that may be changed; Program file of digits. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "mapped_engine.h"
#include "matloom_uio.h"

static struct matloom_uio uio;
static struct matloom_program program;
static struct matloom_engine engine;
static uint32_t sleeps_left; /* slices until the engine ends; the interrupt comes then */
static uint32_t masked, reads, sleeps, failing;

int __wrap_poll(struct pollfd* question, nfds_t count, int milliseconds);
ssize_t __wrap_read(int file, void* to, size_t bytes);
ssize_t __wrap_write(int file, const void* from, size_t bytes);

int __wrap_poll(struct pollfd* question, nfds_t count, int milliseconds) {
  EQUAL(question->fd, uio.events);
  EQUAL(count, 1);
  CHECK(milliseconds > 0);
  ++sleeps;
  EQUAL(uio.registers[MAPPED_IRQ_ENABLE], 3);
  if (sleeps_left == 0 || --sleeps_left != 0) return 0;
  mapped_work(uio.registers, uio.memory, uio.bus);
  return 1;
}

ssize_t __wrap_write(int file, const void* from, size_t bytes) {
  uint32_t word;
  EQUAL(file, uio.events);
  EQUAL(bytes, sizeof word);
  memcpy(&word, from, sizeof word);
  EQUAL(word, 1);
  masked = 0;
  if (failing != 0 && failing-- != 0) return -1;
  return (ssize_t)bytes;
}

ssize_t __wrap_read(int file, void* to, size_t bytes) {
  const uint32_t word = ++reads;
  EQUAL(file, uio.events);
  EQUAL(bytes, sizeof word);
  EQUAL(masked, 0);
  masked = 1;
  memcpy(to, &word, sizeof word);
  return (ssize_t)bytes;
}

/* Writes a file of the tree; a NULL text removes it. */
static void tell(const char* root, const char* file, const char* text) {
  char path[512];
  CHECK(snprintf(path, sizeof path, "%s/%s", root, file) < (int)sizeof path);
  (void)remove(path);
  if (text == NULL) return;
  FILE* stream = fopen(path, "w");
  CHECK(stream != NULL);
  CHECK(fputs(text, stream) >= 0);
  CHECK(fclose(stream) == 0);
}

#define MAPS "sys/class/uio/uio0/maps/map0/"
#define BUFFER "sys/class/u-dma-buf/udmabuf0/"

/* Each file of sysfs with what it must not say. */
static void test_refusals(const struct matloom_uio_names* names) {
  static const struct {
    const char* file;
    const char* wrong[4];
    const char* right;
    enum matloom_result result;
  } cases[] = {
      {MAPS "size", {"0x7ff\n", "0x100000000\n", "much\n", "\n"}, "0x800\n", MATLOOM_ERROR_BUS},
      {MAPS "offset", {"0x2\n", "0x100000000\n", "", "0x40 \n"}, "0x40\n", MATLOOM_ERROR_BUS},
      {BUFFER "size", {"0\n", "4294967296\n", "-\n", "x"}, "65536\n", MATLOOM_ERROR_MEMORY},
      {BUFFER "phys_addr", {"0x20\n", "0x100000000\n", "", "?\n"}, "0x0000000080000000\n",
       MATLOOM_ERROR_MEMORY},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    for (size_t j = 0; j < 5; ++j) {
      tell(names->root, cases[i].file, j < 4 ? cases[i].wrong[j] : NULL);
      EQUAL(matloom_uio_open(&uio, names), cases[i].result);
      CHECK(uio.events == -1 && uio.registers == NULL && uio.memory == NULL);
    }
    tell(names->root, cases[i].file, cases[i].right);
  }
}

static void test_names(const struct matloom_uio_names* right) {
  static char long_name[400];
  struct matloom_uio_names names = *right;
  memset(long_name, 'u', sizeof long_name - 1);
  names.registers = long_name;
  EQUAL(matloom_uio_open(&uio, &names), MATLOOM_ERROR_ARGUMENT);
  names.registers = "uio1";
  EQUAL(matloom_uio_open(&uio, &names), MATLOOM_ERROR_BUS);
  EQUAL(errno, ENOENT);
  names = *right;
  names.memory = long_name;
  EQUAL(matloom_uio_open(&uio, &names), MATLOOM_ERROR_ARGUMENT);
  names.memory = "udmabuf1"; /* sysfs has it, /dev does not */
  EQUAL(matloom_uio_open(&uio, &names), MATLOOM_ERROR_MEMORY);
  names = *right;
  names.registers = "uio2"; /* a folder in /dev: cannot be opened for writing */
  EQUAL(matloom_uio_open(&uio, &names), MATLOOM_ERROR_BUS);
  names.registers = "uio3"; /* a pipe: opens, and cannot be mapped */
  EQUAL(matloom_uio_open(&uio, &names), MATLOOM_ERROR_BUS);
  EQUAL(errno, ENODEV);
}

static void test_run(const struct matloom_uio_names* names, const uint8_t* file, size_t bytes) {
  static uint8_t data[8][4096];
  void* tensors[8];
  struct matloom_tensor tensor;
  EQUAL(matloom_uio_open(&uio, names), MATLOOM_OK);
  const struct matloom_port port = matloom_uio_port(&uio, 50);
  const struct matloom_memory memory = matloom_uio_memory(&uio);
  CHECK(memory.bus == 0x80000000u && memory.bytes == 65536);
  EQUAL(matloom_program_open(&program, file, bytes), MATLOOM_OK);
  EQUAL(matloom_probe(&engine, &port), MATLOOM_ERROR_IDENTITY);
  uio.registers[MAPPED_ID] = 0x4d4c0008u;
  uio.registers[MAPPED_DIGEST] = program.digest;
  EQUAL(matloom_probe(&engine, &port), MATLOOM_OK);
  EQUAL(matloom_attach(&engine, &program, &memory), MATLOOM_OK);
  for (uint32_t i = 0; i < 8; ++i) tensors[i] = data[i];
  const int32_t input = matloom_program_operand(&program, 0, false, 0);
  const int32_t output = matloom_program_operand(&program, 0, true, 0);
  EQUAL(matloom_program_tensor(&program, (uint32_t)output, &tensor), MATLOOM_OK);
  for (uint32_t i = 0; i < 64; ++i) data[input][i] = (uint8_t)(3 * i);
  sleeps_left = 3;
  failing = 2; /* calls that a signal interrupts */
  EQUAL(matloom_write_inputs(&engine, 0, tensors), MATLOOM_OK);
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(matloom_wait(&engine), MATLOOM_OK);
  EQUAL(matloom_read_outputs(&engine, 0, tensors), MATLOOM_OK);
  CHECK(sleeps == 3 && reads == 1);
  EQUAL(uio.registers[MAPPED_IRQ_STATUS], 1); /* what was written back: 1 clears */
  for (uint32_t i = 0; i < tensor.bytes; ++i) EQUAL(data[output][i], (uint8_t)~(3 * i));
  uio.registers[MAPPED_STATUS] = 0;
  EQUAL(matloom_start(&engine, 0), MATLOOM_OK);
  EQUAL(matloom_wait(&engine), MATLOOM_ERROR_TIMEOUT);
  matloom_uio_close(&uio);
  matloom_uio_close(&uio); /* does nothing */
}

int main(int count, char** arguments) {
  static _Alignas(64) uint8_t file[65536];
  EQUAL(count, 3);
  const struct matloom_uio_names names = {arguments[1], "uio0", "udmabuf0"};
  FILE* stream = fopen(arguments[2], "rb");
  CHECK(stream != NULL);
  const size_t bytes = fread(file, 1, sizeof file, stream);
  CHECK(fclose(stream) == 0);
  test_names(&names);
  test_refusals(&names);
  test_run(&names, file, bytes);
  return 0;
}
