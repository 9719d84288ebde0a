/* An application that runs a network compiled to C on inputs from the line, and prints outputs and
 * cycles.
 *
 * NETWORK, INPUT and OUTPUT are names in the files that `matloom compile NET --emit c` wrote;
 * HEADER is their header. First may come a line about the system, then the line "ready". For each
 * input, three lines follow: the output's bytes in hexadecimal, the engine's cycles (of its last
 * step, if there are several), and the processor's cycles while the engine was idle. After an
 * error, a line with its number is the last one. */
#include "system.h"

#include HEADER

#define JOINED(one, two) one##two
#define CALL(name, end) JOINED(name, end)

static struct matloom_engine engine;

static void say_hexadecimal(const uint8_t* bytes, size_t count) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < count; ++i) {
    const char pair[] = {digits[bytes[i] >> 4], digits[bytes[i] & 15u]};
    system_write(pair, sizeof pair);
  }
  system_write("\n", 1);
}

/* Writes a word and a number in a line. */
static void say_number(const char* word, size_t length, uint32_t number) {
  char text[11];
  size_t start = sizeof text;
  text[--start] = '\n';
  do {
    text[--start] = (char)('0' + number % 10u);
    number /= 10u;
  } while (number != 0);
  system_write(word, length);
  system_write(text + start, sizeof text - start);
}

#define SAY(word, number) say_number(word " ", sizeof word, number)

/* Runs the network on the current input. */
static enum matloom_result measure(void) {
  struct matloom_counters counters;
  const uint32_t start = system_cycles();
  enum matloom_result result = CALL(NETWORK, _run)(&engine);
  const uint32_t passed = system_cycles() - start;
  if (result == MATLOOM_OK) result = matloom_counters(&engine, &counters);
  if (result != MATLOOM_OK) return result;
  say_hexadecimal((const uint8_t*)OUTPUT, sizeof OUTPUT);
  SAY("engine", counters.value[MATLOOM_COUNTER_CYCLES]);
  SAY("processor", passed - counters.value[MATLOOM_COUNTER_CYCLES]);
  return MATLOOM_OK;
}

int main(void) {
  system_begin();
  const struct matloom_port port = board_port();
  const struct matloom_memory memory = board_memory();
  enum matloom_result result = matloom_probe(&engine, &port);
  if (result == MATLOOM_OK) result = CALL(NETWORK, _open)(&engine, &memory);
  if (result == MATLOOM_OK) system_write("ready\n", 6);
  while (result == MATLOOM_OK && system_read(INPUT, sizeof INPUT)) result = measure();
  if (result != MATLOOM_OK) SAY("error", (uint32_t)result);
  return (int)result;
}
