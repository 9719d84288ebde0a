/* UIO and u-dma-buf for Linux programs; see matloom_uio.h. Not for bare metal. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE /* O_SYNC and the flags of mmap */
#include "matloom_uio.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 256
/* A reset raises no interrupt, so this is the longest sleep before the next poll. */
#define SLICE_MILLISECONDS 1

/* Builds a path below the root; returns false if it is too long. */
static bool path_of(char* path, const struct matloom_uio_names* names, const char* folder,
                    const char* device, const char* file) {
  const char* root = names->root == NULL ? "" : names->root;
  const int length = snprintf(path, PATH_BYTES, "%s/%s/%s%s", root, folder, device, file);
  return length > 0 && length < PATH_BYTES;
}

/* Reads the number in a sysfs file: decimal, or hexadecimal after 0x. */
static bool number_of(const struct matloom_uio_names* names, const char* folder,
                      const char* device, const char* file, uint64_t* number) {
  char path[PATH_BYTES];
  char text[32];
  char* end = text;
  if (!path_of(path, names, folder, device, file)) return false;
  FILE* stream = fopen(path, "r");
  if (stream == NULL) return false;
  if (fgets(text, sizeof text, stream) != NULL) *number = strtoull(text, &end, 0);
  (void)fclose(stream);
  return end != text && (*end == '\n' || *end == '\0');
}

static void* map(int file, size_t bytes) {
  void* found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return found == MAP_FAILED ? NULL : found;
}

/* Maps the registers, which may begin within a page, and keeps the descriptor for the interrupt. */
static enum matloom_result open_registers(struct matloom_uio* uio,
                                          const struct matloom_uio_names* names) {
  static const char folder[] = "sys/class/uio";
  char path[PATH_BYTES];
  uint64_t bytes = 0, offset = 0;
  if (!path_of(path, names, "dev", names->registers, "")) return MATLOOM_ERROR_ARGUMENT;
  if (!number_of(names, folder, names->registers, "/maps/map0/size", &bytes) ||
      !number_of(names, folder, names->registers, "/maps/map0/offset", &offset) ||
      bytes < MATLOOM_WINDOW_BYTES || bytes > UINT32_MAX || offset % 4u != 0 ||
      offset > UINT32_MAX) {
    return MATLOOM_ERROR_BUS;
  }
  uio->events = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
  if (uio->events < 0) return MATLOOM_ERROR_BUS;
  uio->register_bytes = (size_t)(bytes + offset);
  uio->register_pages = map(uio->events, uio->register_bytes);
  if (uio->register_pages == NULL) return MATLOOM_ERROR_BUS;
  uio->registers = (volatile uint32_t*)uio->register_pages + offset / 4u;
  return MATLOOM_OK;
}

static enum matloom_result open_memory(struct matloom_uio* uio,
                                       const struct matloom_uio_names* names) {
  static const char folder[] = "sys/class/u-dma-buf";
  char path[PATH_BYTES];
  uint64_t bytes = 0, bus = 0;
  if (!path_of(path, names, "dev", names->memory, "")) return MATLOOM_ERROR_ARGUMENT;
  if (!number_of(names, folder, names->memory, "/size", &bytes) ||
      !number_of(names, folder, names->memory, "/phys_addr", &bus) || bytes == 0 ||
      bytes > UINT32_MAX || bus > UINT32_MAX || bus % MATLOOM_FILE_ALIGNMENT != 0) {
    return MATLOOM_ERROR_MEMORY;
  }
  const int file = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
  if (file < 0) return MATLOOM_ERROR_MEMORY;
  uio->memory = map(file, (size_t)bytes);
  (void)close(file); /* the mapping remains */
  uio->memory_bytes = (size_t)bytes;
  uio->bus = (uint32_t)bus;
  return uio->memory == NULL ? MATLOOM_ERROR_MEMORY : MATLOOM_OK;
}

enum matloom_result matloom_uio_open(struct matloom_uio* uio,
                                     const struct matloom_uio_names* names) {
  const struct matloom_uio none = {.events = -1};
  *uio = none;
  enum matloom_result result = open_registers(uio, names);
  if (result == MATLOOM_OK) result = open_memory(uio, names);
  if (result != MATLOOM_OK) matloom_uio_close(uio);
  return result;
}

void matloom_uio_close(struct matloom_uio* uio) {
  const struct matloom_uio none = {.events = -1};
  if (uio->memory != NULL) (void)munmap(uio->memory, uio->memory_bytes);
  if (uio->register_pages != NULL) (void)munmap(uio->register_pages, uio->register_bytes);
  if (uio->events >= 0) (void)close(uio->events);
  *uio = none;
}

/* Sleeps until the interrupt, or for a slice; then acknowledges it, as the line is
 * level-sensitive. */
static void wait_for_interrupt(void* context) {
  const struct matloom_uio* uio = context;
  const uint32_t unmask = 1;
  uint32_t events = 0;
  struct pollfd question = {.fd = uio->events, .events = POLLIN};
  /* The kernel masks the line at each interrupt. If a call fails, the driver polls again at
   * once. */
  if (write(uio->events, &unmask, sizeof unmask) != (ssize_t)sizeof unmask) return;
  if (poll(&question, 1, SLICE_MILLISECONDS) != 1) return;
  if (read(uio->events, &events, sizeof events) != (ssize_t)sizeof events) return;
  volatile uint32_t* status = &uio->registers[MATLOOM_IRQ_STATUS_OFFSET / 4u];
  *status = *status;
}

/* Orders accesses to memory before those to registers, which the compiler cannot relate. */
static void barrier(void* context) {
  (void)context;
#if defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("dsb sy" ::: "memory");
#elif defined(__riscv)
  __asm__ volatile("fence iorw, iorw" ::: "memory");
#else
  __sync_synchronize();
#endif
}

static uint32_t milliseconds_now(void* context) {
  struct timespec now = {0, 0};
  (void)context;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint32_t)now.tv_sec * 1000u + (uint32_t)(now.tv_nsec / 1000000);
}

struct matloom_port matloom_uio_port(struct matloom_uio* uio, uint32_t milliseconds) {
  const struct matloom_port port = {.context = uio,
                                    .registers = uio->registers,
                                    .barrier = barrier,
                                    .wait = wait_for_interrupt,
                                    .now = milliseconds_now,
                                    .timeout = milliseconds,
                                    .interrupts = true};
  return port;
}

struct matloom_memory matloom_uio_memory(const struct matloom_uio* uio) {
  const struct matloom_memory memory = {uio->memory, uio->bus, (uint32_t)uio->memory_bytes};
  return memory;
}
