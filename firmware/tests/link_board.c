/* The firmware's end of the host link on a board: an argument is the number of the line's file. */
#include <unistd.h>

#include "board.h"
#include "check.h"
#include "matloom_link.h"

static int line;

static void send(void* context, const uint8_t* bytes, size_t count) {
  (void)context;
  while (count > 0) {
    const ssize_t sent = write(line, bytes, count);
    CHECK(sent > 0);
    bytes += sent;
    count -= (size_t)sent;
  }
}

int main(int count, char** arguments) {
  static struct matloom_link link;
  static struct matloom_engine engine;
  struct matloom_link_board board = {.name = "simulation", .clock_hz = 1000000, .send = send};
  EQUAL(count, 2);
  line = atoi(arguments[1]);
  board.port = board_port();
  board.memory = board_memory();
  EQUAL(matloom_probe(&engine, &board.port), MATLOOM_OK);
  board.digest = matloom_digest(&engine);
  matloom_link_open(&link, &board);
  for (uint8_t byte; read(line, &byte, 1) == 1;) matloom_link_take(&link, byte);
  return 0;
}
