/* Images in front of a network: crop, resize, order of channels, table. */
#include "matloom_pre.h"

#define COLOURS 3u
#define BYTES 256u
#define WEIGHT_BITS 12u

/* A channel of a pixel as the network has it. */
static uint32_t channel(const uint8_t* pixel, uint32_t depth, uint32_t number,
                        const struct matloom_image* how) {
  if (how->channels < depth) {
    const uint32_t sum = 19595u * pixel[0] + 38470u * pixel[1] + 7471u * pixel[2];
    return (sum + (1u << 15)) >> 16;
  }
  return pixel[how->reversed ? COLOURS - 1u - number : number];
}

static uint32_t resized(const uint8_t* image, uint32_t depth, uint32_t number,
                        const struct matloom_taps* row, const struct matloom_taps* column,
                        const struct matloom_image* how) {
  uint32_t sum = 1u << (2u * WEIGHT_BITS - 1u);
  for (uint32_t y = 0; y < row->count; ++y) {
    const uint32_t start = (row->first + y) * how->source_width + column->first;
    uint32_t line = 0;
    for (uint32_t x = 0; x < column->count; ++x) {
      const uint32_t value = channel(&image[(start + x) * depth], depth, number, how);
      line += how->weights[column->weights + x] * value;
    }
    sum += how->weights[row->weights + y] * line;
  }
  return sum >> (2u * WEIGHT_BITS);
}

void matloom_image(void* output, const uint8_t* image, uint32_t depth,
                   const struct matloom_image* how) {
  uint8_t* made = output;
  for (uint32_t y = 0; y < how->height; ++y) {
    for (uint32_t x = 0; x < how->width; ++x) {
      for (uint32_t c = 0; c < how->channels; ++c) {
        const uint32_t plain = (y * how->width + x) * how->channels + c;
        const uint32_t plane = (c * how->height + y) * how->width + x;
        const uint32_t to = (how->planes ? plane : plain) * how->element_bytes;
        const uint32_t byte = resized(image, depth, c, &how->rows[y], &how->columns[x], how);
        const uint32_t from = (c * BYTES + byte) * how->element_bytes;
        for (uint32_t i = 0; i < how->element_bytes; ++i) made[to + i] = how->table[from + i];
      }
    }
  }
}
