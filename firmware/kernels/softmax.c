/* SOFTMAX of int8, in fixed point. */
#include "exponentials.h"

static void softmax_row(int8_t* output, const int8_t* input, uint32_t columns,
                        struct matloom_scale scale, int32_t least) {
  const struct matloom_row row = summed_row(input, columns, scale, least);
  const int32_t zeros = leading_zeros(row.sum);
  const int64_t fraction = wrapped((row.sum << zeros) - ((int64_t)1 << 31));
  const int64_t share = doubled(reciprocal(fraction), 1);
  for (uint32_t i = 0; i < columns; ++i) {
    const int32_t difference = input[i] - row.most;
    int64_t result = -128;
    if (difference >= least) {
      const int64_t power = exp_of_negative(scaled(difference, scale));
      result += divided(multiplied(share, power), SUM_BITS - zeros + 31 - 8);
    }
    output[i] = (int8_t)(result > 127 ? 127 : result);
  }
}

void matloom_softmax_int8(int8_t* output, const int8_t* input, uint32_t rows, uint32_t columns,
                          struct matloom_scale scale, int32_t least) {
  for (uint32_t row = 0; row < rows; ++row) {
    softmax_row(output + row * columns, input + row * columns, columns, scale, least);
  }
}
