/* Integers of 32 bits that represent fractions, as gemmlowp computes with them.
 *
 * Values are int64 that fit 32 bits; a right shift of a negative number is one of the sign, as with
 * every compiler that the driver is made for. */
#ifndef MATLOOM_FIXED_POINT_H
#define MATLOOM_FIXED_POINT_H

#include "matloom_kernels.h"

/* x * multiplier / 2**31, halves up. */
static inline int64_t multiplied(int64_t x, int64_t multiplier) {
  return (x * multiplier + ((int64_t)1 << 30)) >> 31;
}

/* x / 2**exponent, halves away from zero. */
static inline int64_t divided(int64_t x, int32_t exponent) {
  const int64_t half = ((int64_t)1 << exponent) >> 1;
  return (x + half - (x < 0 && exponent > 0 ? 1 : 0)) >> exponent;
}

/* The low 32 bits with their sign. */
static inline int64_t wrapped(int64_t x) { return (int32_t)(uint32_t)(uint64_t)x; }

static inline int64_t scaled(int64_t x, struct matloom_scale scale) {
  if (scale.shift > 0) x = wrapped((int64_t)((uint64_t)x << scale.shift));
  x = multiplied(x, scale.multiplier);
  return scale.shift < 0 ? divided(x, -scale.shift) : x;
}

#endif
