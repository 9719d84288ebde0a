/* Host test of @NETWORK@: it opens and runs on an engine of registers alone, which is right about
 * everything but numbers, and is refused if it must be. */
#include <stdio.h>

#include "@NETWORK@.h"
#define FAKE_MEMORY_BYTES (@MACRO@_MEMORY_BYTES + 64u)
#include "fake_bus.c"

#define CONFIGURATION @DIGEST@u
#define ENGINE_RUNS @RUNS@u /* for each run of the network */

static int failures;

static void expect(const char* what, uint32_t found, uint32_t wanted) {
  if (found == wanted) return;
  printf("%s: %u, not %u\n", what, (unsigned)found, (unsigned)wanted);
  ++failures;
}

int main(void) {
  static struct fake fake;
  static struct matloom_engine engine;
  struct matloom_port port = fake_port(&fake);
  struct matloom_memory memory = fake_memory(&fake);

  fake_open(&fake, CONFIGURATION);
  expect("probe", matloom_probe(&engine, &port), MATLOOM_OK);
  expect("open", @NETWORK@_open(&engine, &memory), MATLOOM_OK);
  for (uint32_t run = 1; run <= 2; ++run) {
    expect("run", @NETWORK@_run(&engine), MATLOOM_OK);
    expect("runs of the engine", fake.runs, run * ENGINE_RUNS);
  }

  memory.bytes = @MACRO@_MEMORY_BYTES;
  expect("just enough memory", @NETWORK@_open(&engine, &memory), MATLOOM_OK);
  memory.bytes = @MACRO@_MEMORY_BYTES - 64u;
  expect("too little memory", @NETWORK@_open(&engine, &memory), MATLOOM_ERROR_MEMORY);

  fake_open(&fake, CONFIGURATION ^ 1u);
  memory = fake_memory(&fake);
  expect("probe", matloom_probe(&engine, &port), MATLOOM_OK);
  expect("another configuration", @NETWORK@_open(&engine, &memory), MATLOOM_ERROR_DIGEST);

  puts(failures == 0 ? "passed" : "failed");
  return failures == 0 ? 0 : 1;
}
