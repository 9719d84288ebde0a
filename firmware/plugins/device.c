/* UIO and the simulated chip behind the driver's port; see device.h. */
#define _POSIX_C_SOURCE 200809L
#include "device.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BUS 0x80000000u
#define NAME_BYTES 64
/* A run or a reset of the simulated chip fails after this many waits, each of this many cycles. */
#define CHIP_WAITS 100000u
#define CHIP_CYCLES (1u << 16)
/* A run or a reset of a real engine fails after a minute. */
#define UIO_MILLISECONDS 60000u

static bool starts_with(const char* text, const char* start) {
  return strncmp(text, start, strlen(start)) == 0;
}

/* ---- The simulated chip ---- */

static bool chip_read(void* context, uint32_t offset, uint32_t* value) {
  const struct plugin_chip* chip = context;
  uint32_t response = 0;
  *value = chip->read(chip->chip, offset, &response);
  return response == 0;
}

static bool chip_write(void* context, uint32_t offset, uint32_t value) {
  const struct plugin_chip* chip = context;
  uint32_t response = 0;
  chip->write(chip->chip, offset, value, &response);
  return response == 0;
}

static void chip_wait(void* context) {
  const struct plugin_chip* chip = context;
  (void)chip->run(chip->chip, CHIP_CYCLES);
}

/* A function of the library, by a detour: C has no cast from objects to functions. */
static bool find(void* library, const char* name, void* function) {
  void* found = dlsym(library, name);
  if (found != NULL) memcpy(function, &found, sizeof found);
  return found != NULL;
}

static bool open_chip(struct plugin_device* device, const char* path, uint32_t bytes,
                      char* sentence) {
  struct plugin_chip* chip = &device->chip;
  void* (*create)(uint8_t*, uint64_t, uint64_t, uint32_t) = NULL;
  const uint32_t page = 4096;
  const uint32_t rounded = (bytes + page - 1) / page * page;
  chip->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (chip->library == NULL) {
    (void)snprintf(sentence, PLUGIN_SENTENCE, "the simulated chip cannot be loaded: %s", dlerror());
    return false;
  }
  if (!find(chip->library, "matloom_create", &create) ||
      !find(chip->library, "matloom_read32", &chip->read) ||
      !find(chip->library, "matloom_write32", &chip->write) ||
      !find(chip->library, "matloom_run", &chip->run) ||
      !find(chip->library, "matloom_destroy", &chip->destroy)) {
    (void)snprintf(sentence, PLUGIN_SENTENCE, "%s is not the library of a simulated chip", path);
    return false;
  }
  chip->memory = aligned_alloc(page, rounded);
  if (chip->memory != NULL) chip->chip = create(chip->memory, MEMORY_BUS, rounded, 0);
  if (chip->chip == NULL) {
    (void)snprintf(sentence, PLUGIN_SENTENCE, "no memory for a simulated chip");
    return false;
  }
  const struct matloom_port port = {.context = chip,
                                    .read32 = chip_read,
                                    .write32 = chip_write,
                                    .wait = chip_wait,
                                    .timeout = CHIP_WAITS,
                                    .interrupts = true};
  const struct matloom_memory memory = {chip->memory, MEMORY_BUS, rounded};
  device->port = port;
  device->memory = memory;
  return true;
}

/* ---- UIO ---- */

static bool open_uio(struct plugin_device* device, const char* names, char* sentence) {
  char registers[NAME_BYTES];
  const char* comma = strchr(names, ',');
  const size_t length = comma == NULL ? 0 : (size_t)(comma - names);
  if (length == 0 || length >= sizeof registers || comma[1] == '\0') {
    (void)snprintf(sentence, PLUGIN_SENTENCE,
                   "device uio must be uio:REGISTERS,MEMORY as in uio:uio0,udmabuf0, not uio:%s",
                   names);
    return false;
  }
  memcpy(registers, names, length);
  registers[length] = '\0';
  const struct matloom_uio_names opened = {getenv("MATLOOM_UIO_ROOT"), registers, comma + 1};
  const enum matloom_result result = matloom_uio_open(&device->uio, &opened);
  if (result != MATLOOM_OK) {
    (void)snprintf(sentence, PLUGIN_SENTENCE, "device uio:%s cannot be opened: %s (%s)", names,
                   matloom_result_text(result), strerror(errno));
    return false;
  }
  device->is_uio = true;
  device->port = matloom_uio_port(&device->uio, UIO_MILLISECONDS);
  device->memory = matloom_uio_memory(&device->uio);
  return true;
}

bool plugin_device_open(struct plugin_device* device, const char* name, uint32_t bytes,
                        char sentence[PLUGIN_SENTENCE]) {
  bool opened = false;
  memset(device, 0, sizeof *device);
  if (starts_with(name, "rtl:")) {
    opened = open_chip(device, name + strlen("rtl:"), bytes, sentence);
  } else if (starts_with(name, "uio:")) {
    opened = open_uio(device, name + strlen("uio:"), sentence);
  } else {
    (void)snprintf(sentence, PLUGIN_SENTENCE,
                   "device must be rtl:LIBRARY or uio:REGISTERS,MEMORY, not %s", name);
  }
  if (!opened) plugin_device_close(device);
  return opened;
}

void plugin_device_close(struct plugin_device* device) {
  if (device->is_uio) matloom_uio_close(&device->uio);
  if (device->chip.chip != NULL) device->chip.destroy(device->chip.chip);
  if (device->chip.library != NULL) (void)dlclose(device->chip.library);
  free(device->chip.memory);
  memset(device, 0, sizeof *device);
}
