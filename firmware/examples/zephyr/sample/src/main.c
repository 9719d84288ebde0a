/* Shows the engine one picture, and says which digit it is. */
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "digits.h"
#include "matloom_zephyr.h"

/* A four; the darkest is the network's largest number. */
static const char* const picture[8] = {
    "....#...", "...##...", "..##....", "..#..#..", ".######.", "....##..", "....##..", "....#...",
};

static struct matloom_engine engine;

static int largest(const int8_t* values, int count) {
  int best = 0;
  for (int i = 1; i < count; ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

int main(void) {
  const struct matloom_memory memory = matloom_zephyr_memory();
  enum matloom_result result = matloom_zephyr_probe(&engine);
  if (result == MATLOOM_OK) result = digits_open(&engine, &memory);
  for (int i = 0; i < 64; ++i) digits_image[i] = picture[i / 8][i % 8] == '#' ? 127 : -128;
  if (result == MATLOOM_OK) result = digits_run(&engine);
  if (result == MATLOOM_OK) {
    printk("digit %d\n", largest(digits_probabilities, 10));
  } else {
    printk("%s\n", matloom_result_text(result));
  }
  return 0;
}
