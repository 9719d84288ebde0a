/* Sound in front of a network, in single precision: bands of frequencies, and MFCC. */
#include "matloom_pre.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

/* The square root, rounded to nearest: of a whole number of 50 bits, bit by bit. */
static float root(float x) {
  int32_t doublings = 0;
  uint64_t found = 0;
  float result;
  if (!(x > 0.0f)) return 0.0f;
  while (x >= 4.0f) {
    x *= 0.25f;
    ++doublings;
  }
  while (x < 1.0f) {
    x *= 4.0f;
    --doublings;
  }
  const uint64_t square = (uint64_t)(x * 8388608.0f) << 25;
  for (uint64_t bit = (uint64_t)1 << 24; bit != 0u; bit >>= 1) {
    if ((found + bit) * (found + bit) <= square) found += bit;
  }
  result = (float)(uint32_t)((found + 1u) >> 1) / 8388608.0f;
  for (; doublings > 0; --doublings) result *= 2.0f;
  for (; doublings < 0; ++doublings) result *= 0.5f;
  return result;
}

/* The natural logarithm of a positive number: Cephes' logf (Moshier). */
static float logarithm(float x) {
  static const float factors[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                  -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                  2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  int32_t exponent = 0;
  float result = factors[0];
  while (x >= 1.0f) {
    x *= 0.5f;
    ++exponent;
  }
  while (x < 0.5f) {
    x *= 2.0f;
    --exponent;
  }
  if (x < 0.70710678118654752440f) {
    x += x;
    --exponent;
  }
  const float f = x - 1.0f;
  const float square = f * f;
  const float power = (float)exponent;
  for (uint32_t i = 1; i < sizeof factors / sizeof factors[0]; ++i) {
    result = result * f;
    result = result + factors[i];
  }
  const float series = result * f * square;
  const float low = power * -2.12194440e-4f;
  const float half = 0.5f * square;
  result = series + low;
  result = result - half + f;
  const float high = power * 0.693359375f;
  return result + high;
}

/* The place of a sample before the first stage: its bits in reverse. */
static uint32_t reversed(uint32_t place, uint32_t points) {
  uint32_t found = 0;
  for (uint32_t bit = 1; bit < points; bit <<= 1) {
    found = (found << 1) | ((place & bit) != 0u ? 1u : 0u);
  }
  return found;
}

static void transform(float* real, float* imaginary, const struct matloom_mel* how) {
  for (uint32_t length = 1; length < how->points; length *= 2u) {
    const uint32_t stride = how->points / (2u * length);
    for (uint32_t start = 0; start < how->points; start += 2u * length) {
      for (uint32_t k = 0; k < length; ++k) {
        const uint32_t a = start + k;
        const uint32_t b = a + length;
        const float c = how->cosines[k * stride];
        const float s = how->sines[k * stride];
        const float cr = c * real[b];
        const float ci = c * imaginary[b];
        const float sr = s * real[b];
        const float si = s * imaginary[b];
        const float turned_real = cr - si;
        const float turned_imaginary = ci + sr;
        real[b] = real[a] - turned_real;
        imaginary[b] = imaginary[a] - turned_imaginary;
        real[a] += turned_real;
        imaginary[a] += turned_imaginary;
      }
    }
  }
}

static float summed(const float* values, const float* weights, uint32_t count) {
  float sum = 0.0f;
  for (uint32_t i = 0; i < count; ++i) {
    const float product = values[i] * weights[i];
    sum += product;
  }
  return sum;
}

/* Magnitudes of a frame, in the first half of `work`. */
static void spectrum(const int16_t* frame, int16_t largest, float* work,
                     const struct matloom_mel* how) {
  float* imaginary = work + how->points;
  for (uint32_t i = 0; i < how->points; ++i) {
    const uint32_t place = reversed(i, how->points);
    float value = 0.0f;
    if (place < how->window) {
      value = (float)frame[place];
      if (largest > 0) value /= (float)largest;
      if (!how->peak) value /= 32768.0f;
      value *= how->hann[place];
    }
    work[i] = value;
    imaginary[i] = 0.0f;
  }
  transform(work, imaginary, how);
  for (uint32_t i = 0; i <= how->points / 2u; ++i) {
    const float real = work[i] * work[i];
    const float rest = imaginary[i] * imaginary[i];
    work[i] = root(real + rest);
  }
}

void matloom_mel(float* features, const int16_t* samples, float* work,
                 const struct matloom_mel* how) {
  float* logarithms = work + 2u * how->points;
  int16_t largest = 0;
  for (uint32_t i = 0; how->peak && i < how->samples; ++i) {
    if (samples[i] > largest) largest = samples[i];
  }
  for (uint32_t frame = 0; frame < how->frames; ++frame) {
    spectrum(samples + frame * how->step, largest, work, how);
    for (uint32_t i = 0; i < how->mels; ++i) {
      const struct matloom_taps* band = &how->bands[i];
      float sum = summed(work + band->first, how->weights + band->weights, band->count);
      if (sum < how->floor) sum = how->floor;
      logarithms[i] = logarithm(sum + how->offset);
      if (how->coefficients == 0u) *features++ = logarithms[i];
    }
    for (uint32_t i = 0; i < how->coefficients; ++i) {
      *features++ = summed(logarithms, how->dct + i * how->mels, how->mels);
    }
  }
}
