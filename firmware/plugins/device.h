/* Engines that a plug-in opens by a text: UIO on Linux, or the simulated chip.
 *
 *   uio:REGISTERS,MEMORY   as "uio:uio0,udmabuf0": /dev/uio0 and /dev/udmabuf0 (matloom_uio.h)
 *   rtl:LIBRARY            the simulator library of device="rtl"
 *
 * For a process with a C library, not for bare metal. One thread at a time uses a device. */
#ifndef MATLOOM_PLUGIN_DEVICE_H
#define MATLOOM_PLUGIN_DEVICE_H

#include "matloom_uio.h"

/* Bytes of a sentence about what went wrong, with its zero byte. */
#define PLUGIN_SENTENCE 320

/* The simulated chip: functions of host/matloom/device/harness/harness.cpp. */
struct plugin_chip {
  void* library;
  void* chip;
  uint8_t* memory;
  uint32_t (*read)(void* chip, uint32_t offset, uint32_t* response);
  void (*write)(void* chip, uint32_t offset, uint32_t value, uint32_t* response);
  uint64_t (*run)(void* chip, uint64_t cycles);
  void (*destroy)(void* chip);
};

/* An opened device; all zero if it is closed. */
struct plugin_device {
  struct matloom_port port;
  struct matloom_memory memory;
  struct plugin_chip chip;
  struct matloom_uio uio;
  bool is_uio;
};

/* Opens a device with at least `bytes` of memory. If that fails, nothing stays open, `sentence`
 * says why, and false is returned. `device` must stay where it is. */
bool plugin_device_open(struct plugin_device* device, const char* name, uint32_t bytes,
                        char sentence[PLUGIN_SENTENCE]);

void plugin_device_close(struct plugin_device* device);

#endif
