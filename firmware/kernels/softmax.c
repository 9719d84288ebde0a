/* SOFTMAX of int8, in fixed point. */
#include "fixed_point.h"

/* Sums of exponentials are Q12.19, so that 4095 terms fit. */
#define SUM_BITS 12

static int64_t doubled(int64_t x, int32_t bits) {
  const int64_t low = -((int64_t)1 << 31), high = ((int64_t)1 << 31) - 1;
  x *= (int64_t)1 << bits;
  return x < low ? low : x > high ? high : x;
}

/* exp(a) for a in [-1/4, 0), both Q0.31: a Taylor series around -1/8. */
static int64_t exp_of_quarter(int64_t a) {
  const int64_t exp_of_eighth = 1895147668, third = 715827883;
  const int64_t x = a + ((int64_t)1 << 28);
  const int64_t square = multiplied(x, x);
  const int64_t cube = multiplied(square, x);
  const int64_t fourth = divided(multiplied(square, square), 2);
  const int64_t tail = divided(multiplied(fourth + cube, third) + square, 1);
  return exp_of_eighth + multiplied(exp_of_eighth, x + tail);
}

/* exp(a), Q0.31, for a of Q5.26 that is 0 or less. */
static int64_t exp_of_negative(int64_t a) {
  /* exp(-2**k) in Q0.31 for k from -2 to 4. */
  static const int32_t exponentials[] = {1672461947, 1302514674, 790015084, 290630308,
                                         39332535,   720401,     242};
  const int64_t quarter = (int64_t)1 << 24;
  const int64_t fraction = (a & (quarter - 1)) - quarter;
  const int64_t remainder = fraction - a;
  int64_t result = exp_of_quarter(doubled(fraction, 5));
  if (a == 0) return ((int64_t)1 << 31) - 1;
  for (int i = 0; i < 7; ++i) {
    if ((remainder >> (24 + i) & 1) != 0) result = multiplied(result, exponentials[i]);
  }
  return result;
}

/* 2/(1 + x), Q2.29, for x of Q0.31 in [0, 1]: Newton's and Raphson's steps. */
static int64_t reciprocal(int64_t x) {
  const int64_t half = (x + ((int64_t)1 << 31)) >> 1;
  int64_t estimate = 1515870810 + multiplied(half, -1010580540);
  for (int i = 0; i < 3; ++i) {
    const int64_t error = ((int64_t)1 << 29) - multiplied(half, estimate);
    estimate += doubled(multiplied(estimate, error), 2);
  }
  return estimate;
}

static void softmax_row(int8_t* output, const int8_t* input, uint32_t columns,
                        struct matloom_scale scale, int32_t least) {
  int32_t most = input[0];
  int64_t sum = 0;
  int32_t zeros = 0;
  for (uint32_t i = 1; i < columns; ++i) most = input[i] > most ? input[i] : most;
  for (uint32_t i = 0; i < columns; ++i) {
    const int32_t difference = input[i] - most;
    if (difference >= least) sum += divided(exp_of_negative(scaled(difference, scale)), SUM_BITS);
  }
  while (sum >> (31 - zeros) == 0) ++zeros;
  const int64_t fraction = wrapped((sum << zeros) - ((int64_t)1 << 31));
  const int64_t share = doubled(reciprocal(fraction), 1);
  for (uint32_t i = 0; i < columns; ++i) {
    const int32_t difference = input[i] - most;
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
