/* Reads images of 8 x 8 numbers, and outputs the digit that each shows. */
#include "board.h"
#include "digits.h"

static struct matloom_engine engine;

static int largest(const int8_t* values, int count) {
  int best = 0;
  for (int i = 1; i < count; ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

int main(void) {
  const struct matloom_port port = board_port();
  const struct matloom_memory memory = board_memory();
  enum matloom_result result = matloom_probe(&engine, &port);
  if (result == MATLOOM_OK) result = digits_open(&engine, &memory);
  while (result == MATLOOM_OK && board_input(digits_image)) {
    result = digits_run(&engine);
    if (result == MATLOOM_OK) board_say(largest(digits_probabilities, 10));
  }
  return (int)result;
}
