/* A board that is a simulation of the chip's Verilog: the library of device="rtl".
 *
 * The environment's MATLOOM_SIMULATOR names the library; its interface is that of
 * host/matloom/device/harness/harness.cpp. A run sleeps until the chip raises its interrupt. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"

#define MEMORY_BYTES (1u << 20)
#define MEMORY_BUS 0x80000000u

typedef void* create_function(uint8_t* memory, uint64_t base, uint64_t bytes, uint32_t seed);
typedef uint32_t read_function(void* simulation, uint32_t offset, uint32_t* response);
typedef void write_function(void* simulation, uint32_t offset, uint32_t value, uint32_t* response);
typedef uint64_t run_function(void* simulation, uint64_t cycles);
typedef uint64_t cycles_function(void* simulation);

struct simulator {
  void* chip;
  read_function* read;
  write_function* write;
  run_function* run;
  cycles_function* cycles;
};

static _Alignas(64) uint8_t memory[MEMORY_BYTES];
static struct simulator simulator;

/* A function of the library, by a detour: C has no cast from objects to functions. */
static void find(void* library, const char* name, void* function) {
  void* found = dlsym(library, name);
  if (found == NULL) abort();
  memcpy(function, &found, sizeof found);
}

static bool read_register(void* context, uint32_t offset, uint32_t* value) {
  const struct simulator* of = context;
  uint32_t response = 0;
  *value = of->read(of->chip, offset, &response);
  return response == 0;
}

static bool write_register(void* context, uint32_t offset, uint32_t value) {
  const struct simulator* of = context;
  uint32_t response = 0;
  of->write(of->chip, offset, value, &response);
  return response == 0;
}

static void wait_for_interrupt(void* context) {
  const struct simulator* of = context;
  (void)of->run(of->chip, 1u << 16);
}

struct matloom_port board_port(void) {
  const struct matloom_port port = {.context = &simulator,
                                    .read32 = read_register,
                                    .write32 = write_register,
                                    .wait = wait_for_interrupt,
                                    .timeout = 1000,
                                    .interrupts = true};
  create_function* create;
  void* library = dlopen(getenv("MATLOOM_SIMULATOR"), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) abort();
  find(library, "matloom_create", &create);
  find(library, "matloom_read32", &simulator.read);
  find(library, "matloom_write32", &simulator.write);
  find(library, "matloom_run", &simulator.run);
  find(library, "matloom_cycles", &simulator.cycles);
  simulator.chip = create(memory, MEMORY_BUS, MEMORY_BYTES, 1);
  return port;
}

struct matloom_memory board_memory(void) {
  const struct matloom_memory found = {memory, MEMORY_BUS, MEMORY_BYTES};
  return found;
}

uint32_t board_cycles(void) { return (uint32_t)simulator.cycles(simulator.chip); }

bool board_input(int8_t* image) { return fread(image, 1, 64, stdin) == 64; }

void board_say(int number) { printf("%d\n", number); }
