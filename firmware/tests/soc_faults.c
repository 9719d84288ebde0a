/* What the system's port makes of an engine that fails: a line for each thing, a word and its result. The
 * test on the host knows what they should be. */
#include "line.h"
#include "port.h"
#include "soc.h"
#include "system.h"

#include HEADER

#define JOINED(one, two) one##two
#define CALL(name, end) JOINED(name, end)

static struct matloom_engine engine;

static void say(const char* word, uint32_t value) {
  soc_say(word);
  soc_say_number(value);
  soc_say("\n");
}

/* A register that is not there. */
static void hole(const struct matloom_port* port) {
  uint32_t value = 0;
  say("hole", port->read32(NULL, MATLOOM_WINDOW_BYTES - 4u, &value));
  say("register", port->read32(NULL, MATLOOM_ID_OFFSET, &value));
  say("identity", value == MATLOOM_IDENTITY);
}

int main(void) {
  struct matloom_port port = board_port();
  const struct matloom_memory memory = board_memory();
  system_begin();
  hole(&port);
  /* Too little time for a run, and then all that it needs. */
  say("probe", matloom_probe(&engine, &port));
  say("open", CALL(NETWORK, _open)(&engine, &memory));
  engine.port.timeout = 1;
  say("run", CALL(NETWORK, _run)(&engine));
  engine.port.timeout = port.timeout;
  say("reset", matloom_reset(&engine));
  say("run", CALL(NETWORK, _run)(&engine));
  /* An interrupt that is there ends a wait at once. */
  say("await", soc_await(NULL, 100000) < 1000);
  __asm__ volatile(".word 0");
  soc_say("unreachable\n");
  return 0;
}
