/* LOG_SOFTMAX of int8, in fixed point. */
#include "exponentials.h"

/* Sixteenths, the scale of results, have this many bits of a fraction of Q5.26 below them. */
#define BELOW_SIXTEENTHS 22

/* A quotient of polynomials: the logarithm of x * sqrt(sqrt(2)), Q6.25, for x of Q0.31 near
 * sqrt(sqrt(1/2)). */
static int64_t log_of_mantissa(int64_t x) {
  const int64_t root = 1805811301;
  const int64_t mean = (x + root + 1) >> 1;
  const int64_t twice = 2 * (x - root);
  const int64_t square = multiplied(twice, twice);
  const int64_t above =
      multiplied(twice, x) + multiplied(multiplied(twice, square), 117049297);
  const int64_t below =
      multiplied(mean, 1057819769 + twice + multiplied(square, 127690142)) +
      multiplied(twice, 638450708);
  return multiplied(divided(above, 6), doubled(reciprocal(below), 1));
}

/* log(x), Q5.26, for a sum x of 1 or more, Q12.19: that of a power of two and of what is left, or
 * the same for x * sqrt(1/2), so that what is left is near sqrt(sqrt(1/2)). */
static int64_t log_of_sum(int64_t x) {
  const int64_t half_root = 1518500250;
  const int64_t log_of_two = 1488522236;
  const int64_t quarter = (int64_t)1 << 23;
  const int32_t zeros = leading_zeros(x);
  const int32_t zeros_of_odd = leading_zeros(multiplied(x, half_root)) - 1;
  const int64_t even = doubled(multiplied(doubled(x, zeros - 1), half_root), 1);
  const int64_t odd = doubled(x, zeros_of_odd);
  const int64_t even_power = (int64_t)(SUM_BITS - zeros) * (1 << 25) + quarter;
  const int64_t odd_power = (int64_t)(SUM_BITS - zeros_of_odd) * (1 << 25) - quarter;
  const int64_t power = even_power > odd_power ? even_power : odd_power;
  return doubled(multiplied(power, log_of_two) + log_of_mantissa(even < odd ? even : odd), 1);
}

static void log_softmax_row(int8_t* output, const int8_t* input, uint32_t columns,
                            struct matloom_scale scale, int32_t least) {
  const struct matloom_row row = summed_row(input, columns, scale, least);
  const int64_t logarithm = log_of_sum(row.sum);
  for (uint32_t i = 0; i < columns; ++i) {
    const int32_t difference = input[i] - row.most;
    int64_t result = -128;
    if (difference >= least) {
      result = 127 + divided(scaled(difference, scale) - logarithm, BELOW_SIXTEENTHS);
    }
    output[i] = (int8_t)(result < -128 ? -128 : result > 127 ? 127 : result);
  }
}

void matloom_log_softmax_int8(int8_t* output, const int8_t* input, uint32_t rows,
                              uint32_t columns, struct matloom_scale scale, int32_t least) {
  for (uint32_t row = 0; row < rows; ++row) {
    log_softmax_row(output + row * columns, input + row * columns, columns, scale, least);
  }
}
