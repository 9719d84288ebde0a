/* A program with all calls of a run, to measure the driver's size; define LINKED for a network that
 * is linked into the firmware. It is never run. */
#include "matloom.h"

extern const uint8_t network[];
extern struct matloom_port port;
extern struct matloom_memory memory;
extern void* tensors[];

static struct matloom_program program;
static struct matloom_engine engine;

int start(matloom_host host);

int start(matloom_host host) {
#ifdef LINKED
  if (matloom_program_use(&program, network, 1u << 20) != MATLOOM_OK) return 1;
#else
  if (matloom_program_open(&program, network, 1u << 20) != MATLOOM_OK) return 1;
#endif
  if (matloom_probe(&engine, &port) != MATLOOM_OK) return 2;
  if (matloom_attach(&engine, &program, &memory) != MATLOOM_OK) return 3;
  return (int)matloom_run(&engine, tensors, host, NULL);
}
