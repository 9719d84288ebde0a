/* The library of a simulated chip that stops answering: after MATLOOM_ACCESSES register accesses all
 * fail. Everything before is done by the library that MATLOOM_SIMULATOR names. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ERROR_RESPONSE 2u

typedef void* create_function(uint8_t* memory, uint64_t base, uint64_t bytes, uint32_t seed);
typedef uint32_t read_function(void* chip, uint32_t offset, uint32_t* response);
typedef void write_function(void* chip, uint32_t offset, uint32_t value, uint32_t* response);
typedef uint64_t run_function(void* chip, uint64_t cycles);

static void* library;
static long left;

static void find(const char* name, void* function) {
  void* found = dlsym(library, name);
  if (found == NULL) abort();
  memcpy(function, &found, sizeof found);
}

void* matloom_create(uint8_t* memory, uint64_t base, uint64_t bytes, uint32_t seed);
void matloom_destroy(void* chip);
uint32_t matloom_read32(void* chip, uint32_t offset, uint32_t* response);
void matloom_write32(void* chip, uint32_t offset, uint32_t value, uint32_t* response);
uint64_t matloom_run(void* chip, uint64_t cycles);

void* matloom_create(uint8_t* memory, uint64_t base, uint64_t bytes, uint32_t seed) {
  create_function* create;
  library = dlopen(getenv("MATLOOM_SIMULATOR"), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) abort();
  left = strtol(getenv("MATLOOM_ACCESSES"), NULL, 10);
  find("matloom_create", &create);
  return create(memory, base, bytes, seed);
}

void matloom_destroy(void* chip) {
  void (*destroy)(void*);
  find("matloom_destroy", &destroy);
  destroy(chip);
}

uint32_t matloom_read32(void* chip, uint32_t offset, uint32_t* response) {
  read_function* read;
  find("matloom_read32", &read);
  *response = ERROR_RESPONSE;
  return left-- > 0 ? read(chip, offset, response) : 0;
}

void matloom_write32(void* chip, uint32_t offset, uint32_t value, uint32_t* response) {
  write_function* write;
  find("matloom_write32", &write);
  *response = ERROR_RESPONSE;
  if (left-- > 0) write(chip, offset, value, response);
}

uint64_t matloom_run(void* chip, uint64_t cycles) {
  run_function* run;
  find("matloom_run", &run);
  return run(chip, cycles);
}
