/* TensorFlow Lite Micro's audio front end: integers throughout, 16-bit transform. */
#include "matloom_pre.h"

#define FILTER_BITS 12u
#define SMOOTHING_BITS 14u
#define LOG_BITS 16u
#define SNR_BITS 12u
#define OUTPUT_BITS 6u
#define GAIN_ROW 3u

struct pair {
  int32_t real;
  int32_t imaginary;
};

static int32_t rounded(int32_t product) { return (int16_t)((product + (1 << 14)) >> 15); }

static struct pair get(const int16_t* numbers, uint32_t at) {
  const struct pair found = {numbers[2u * at], numbers[2u * at + 1u]};
  return found;
}

static void put(int16_t* numbers, uint32_t at, int32_t real, int32_t imaginary) {
  numbers[2u * at] = (int16_t)real;
  numbers[2u * at + 1u] = (int16_t)imaginary;
}

static struct pair divided(struct pair a, int32_t divisor) {
  const struct pair found = {rounded(a.real * (32767 / divisor)),
                             rounded(a.imaginary * (32767 / divisor))};
  return found;
}

static struct pair times(struct pair a, struct pair b) {
  const struct pair found = {rounded(a.real * b.real - a.imaginary * b.imaginary),
                             rounded(a.real * b.imaginary + a.imaginary * b.real)};
  return found;
}

static struct pair plus(struct pair a, struct pair b, int32_t sign) {
  const struct pair found = {(int16_t)(a.real + sign * b.real),
                             (int16_t)(a.imaginary + sign * b.imaginary)};
  return found;
}

static void radix_2(int16_t* numbers, uint32_t at, uint32_t length, struct pair twiddle) {
  const struct pair a = divided(get(numbers, at), 2);
  const struct pair b = times(divided(get(numbers, at + length), 2), twiddle);
  put(numbers, at, a.real + b.real, a.imaginary + b.imaginary);
  put(numbers, at + length, a.real - b.real, a.imaginary - b.imaginary);
}

static void radix_4(int16_t* numbers, uint32_t at, uint32_t length, const int16_t* twiddles,
                    uint32_t first) {
  const struct pair a = divided(get(numbers, at), 4);
  const struct pair b = times(divided(get(numbers, at + length), 4), get(twiddles, first));
  const struct pair c = times(divided(get(numbers, at + 2u * length), 4), get(twiddles, 2u * first));
  const struct pair d = times(divided(get(numbers, at + 3u * length), 4), get(twiddles, 3u * first));
  const struct pair even = plus(a, c, 1);
  const struct pair across = plus(a, c, -1);
  const struct pair odd = plus(b, d, 1);
  const struct pair rotated = plus(b, d, -1);
  put(numbers, at, even.real + odd.real, even.imaginary + odd.imaginary);
  put(numbers, at + length, across.real + rotated.imaginary, across.imaginary - rotated.real);
  put(numbers, at + 2u * length, even.real - odd.real, even.imaginary - odd.imaginary);
  put(numbers, at + 3u * length, across.real - rotated.imaginary, across.imaginary + rotated.real);
}

/* The transform of `half` complex numbers, which lie in the order of `how->order`. */
static void transformed(int16_t* numbers, uint32_t half, const struct matloom_micro* how) {
  uint32_t length = 1;
  while (length < half) {
    bool four = true;
    for (uint32_t rest = half / length; rest > 1u; rest /= 4u) four = rest >= 4u;
    const uint32_t radix = four ? 4u : 2u;
    const uint32_t stride = half / (length * radix);
    for (uint32_t start = 0; start < half; start += length * radix) {
      for (uint32_t k = 0; k < length; ++k) {
        if (four) {
          radix_4(numbers, start + k, length, how->twiddles, k * stride);
        } else {
          radix_2(numbers, start + k, length, get(how->twiddles, k * stride));
        }
      }
    }
    length *= radix;
  }
}

static int32_t squared(int32_t real, int32_t imaginary) {
  const int32_t a = (int16_t)real;
  const int32_t b = (int16_t)imaginary;
  return (int32_t)((uint32_t)(a * a) + (uint32_t)(b * b));
}

/* Energies of the real samples whose pairs were transformed. */
static void energies(int32_t* energy, const int16_t* numbers, uint32_t half,
                     const int16_t* halves) {
  const struct pair first = divided(get(numbers, 0), 2);
  energy[0] = squared(first.real + first.imaginary, 0);
  energy[half] = squared(first.real - first.imaginary, 0);
  for (uint32_t k = 1; k <= half / 2u; ++k) {
    const struct pair end = get(numbers, half - k);
    const struct pair conjugate = {end.real, (int16_t)-end.imaginary};
    const struct pair near = divided(get(numbers, k), 2);
    const struct pair far = divided(conjugate, 2);
    const struct pair even = plus(near, far, 1);
    const struct pair rotated = times(plus(near, far, -1), get(halves, k - 1u));
    energy[k] = squared((even.real + rotated.real) >> 1, (even.imaginary + rotated.imaginary) >> 1);
    energy[half - k] =
        squared((even.real - rotated.real) >> 1, (rotated.imaginary - even.imaginary) >> 1);
  }
}

/* Bits of a number without its leading zeros. */
static uint32_t bits_of(uint32_t number) {
  uint32_t found = 0;
  for (; number != 0u; number >>= 1) ++found;
  return found;
}

/* The square root, rounded to nearest, unless it has all of 16 or 32 bits. */
static uint32_t root(uint64_t number) {
  uint64_t found = 0;
  const uint64_t most = number >> 32 != 0u ? 0xffffffffu : 0xffffu;
  for (uint64_t bit = (uint64_t)1 << 31; bit != 0u; bit >>= 1) {
    if ((found + bit) * (found + bit) <= number) found += bit;
  }
  if (number - found * found > found && found != most) ++found;
  return (uint32_t)found;
}

/* Energies of a frame, and by how many bits it was made larger. */
static uint32_t windowed(const int16_t* frame, int16_t* transform, int32_t* energy,
                         const struct matloom_micro* how) {
  const uint32_t half = how->points / 2u;
  int16_t largest = 0;
  for (uint32_t i = 0; i < how->window; ++i) {
    const int16_t value = (int16_t)((frame[i] * how->hann[i]) >> FILTER_BITS);
    const int16_t size = (int16_t)(value < 0 ? -value : value);
    if (size > largest) largest = size;
  }
  const uint32_t shift = 15u - bits_of((uint32_t)largest);
  for (uint32_t i = 0; i < half; ++i) {
    for (uint32_t part = 0; part < 2u; ++part) {
      const uint32_t place = 2u * how->order[i] + part;
      int32_t value = 0;
      if (place < how->window) value = (frame[place] * how->hann[place]) >> FILTER_BITS;
      transform[2u * i + part] = (int16_t)(value * (1 << shift));
    }
  }
  transformed(transform, half, how);
  energies(energy, transform, half, how->halves);
  return shift;
}

static uint32_t banded(const struct matloom_taps* band, const int32_t* energy,
                       const struct matloom_micro* how) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < band->count; ++i) {
    const int64_t product = (int64_t)how->weights[band->weights + i] * energy[band->first + i];
    sum += (uint64_t)product;
  }
  return root(sum);
}

/* What is left of a band without its noise, whose estimate follows it. */
static uint32_t cleaned(uint32_t signal, uint32_t share, uint32_t* noise,
                        const struct matloom_micro* how) {
  const uint32_t large = signal << how->smoothing_bits;
  const uint64_t sum =
      (uint64_t)large * share + (uint64_t)*noise * ((1u << SMOOTHING_BITS) - share);
  *noise = (uint32_t)(sum >> SMOOTHING_BITS);
  const uint32_t taken = *noise < large ? *noise : large;
  const uint32_t left = (large - taken) >> how->smoothing_bits;
  const uint32_t least = (uint32_t)(((uint64_t)signal * how->least) >> SMOOTHING_BITS);
  return left > least ? left : least;
}

/* The gain at a noise: a parabola between powers of two. */
static int16_t gain_at(uint32_t noise, const int16_t* gains) {
  const uint32_t length = bits_of(noise);
  const int16_t* row = &gains[length * GAIN_ROW];
  if (noise <= 2u) return row[0];
  const uint32_t place = length < 11u ? noise << (11u - length) : noise >> (length - 11u);
  const int32_t fraction = (int32_t)(place & 0x3ffu);
  int32_t curve = (row[2] * fraction) >> 5;
  curve = (curve + row[1] * 32) * fraction;
  return (int16_t)(row[0] + ((curve + (1 << 14)) >> 15));
}

static uint32_t gained(uint32_t signal, uint32_t noise, const struct matloom_micro* how) {
  const uint32_t gain = (uint32_t)(int32_t)gain_at(noise, how->gains);
  const uint32_t ratio = (uint32_t)(((uint64_t)signal * gain) >> how->gain_shift);
  if (ratio < 2u << SNR_BITS) return (ratio * ratio) >> (2u + 2u * SNR_BITS - OUTPUT_BITS);
  return (ratio >> (SNR_BITS - OUTPUT_BITS)) - (1u << OUTPUT_BITS);
}

/* The natural logarithm, shifted; 0 of 0 and 1. */
static uint32_t logarithm(uint32_t number, const struct matloom_micro* how) {
  if (number < 2u) return 0;
  const uint32_t whole = bits_of(number) - 1u;
  const uint32_t rest = number - (1u << whole);
  const uint32_t place = whole < LOG_BITS ? rest << (LOG_BITS - whole) : rest >> (whole - LOG_BITS);
  const uint32_t segment = place >> 9;
  const int32_t low = how->logarithms[segment];
  const int32_t slope = how->logarithms[segment + 1u] - low;
  const int32_t between = (slope * (int32_t)(place & 0x1ffu)) >> LOG_BITS;
  const uint32_t fraction = place + (uint32_t)(low + between);
  const uint64_t natural = (uint64_t)45426u * ((whole << LOG_BITS) + fraction) + (1u << 15);
  return (((uint32_t)(natural >> LOG_BITS) << how->log_shift) + (1u << 15)) >> LOG_BITS;
}

void matloom_micro_frontend(uint16_t* features, const int16_t* samples, int16_t* transform,
                            int32_t* energy, uint32_t* noise, const struct matloom_micro* how) {
  for (uint32_t i = 0; i < how->mels; ++i) noise[i] = 0;
  for (uint32_t frame = 0; frame < how->frames; ++frame) {
    const uint32_t shift = windowed(samples + frame * how->step, transform, energy, how);
    for (uint32_t i = 0; i < how->mels; ++i) {
      uint32_t value = banded(&how->bands[i], energy, how) >> shift;
      value = cleaned(value, how->smoothing[i % 2u], &noise[i], how);
      if (how->gains != NULL) value = gained(value, noise[i], how);
      value = how->correction < 0 ? value >> -how->correction : value << how->correction;
      value = logarithm(value, how);
      *features++ = (uint16_t)(value < 0xffffu ? value : 0xffffu);
    }
  }
}
