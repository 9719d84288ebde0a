/* Exponentials, their sums and reciprocals, in fixed point, as SOFTMAX and LOG_SOFTMAX use them. */
#ifndef MATLOOM_EXPONENTIALS_H
#define MATLOOM_EXPONENTIALS_H

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

/* Leading zeros of a positive number of 32 bits. */
static int32_t leading_zeros(int64_t x) {
  int32_t zeros = 0;
  while (x >> (31 - zeros) == 0) ++zeros;
  return zeros;
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

/* Differences of a row's elements from its largest one, and the sum of their exponentials, Q12.19. */
struct matloom_row {
  int32_t most;
  int64_t sum;
};

static struct matloom_row summed_row(const int8_t* input, uint32_t columns,
                                            struct matloom_scale scale, int32_t least) {
  struct matloom_row row = {input[0], 0};
  for (uint32_t i = 1; i < columns; ++i) row.most = input[i] > row.most ? input[i] : row.most;
  for (uint32_t i = 0; i < columns; ++i) {
    const int32_t difference = input[i] - row.most;
    if (difference >= least) {
      row.sum += divided(exp_of_negative(scaled(difference, scale)), SUM_BITS);
    }
  }
  return row;
}

#endif
