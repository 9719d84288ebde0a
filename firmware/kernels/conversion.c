/* Change of type, shape and scale; tables; the first of the largest. */
#include "fixed_point.h"

void matloom_copy(void* output, const void* input, uint32_t bytes) {
  uint8_t* to = output;
  const uint8_t* from = input;
  for (uint32_t i = 0; i < bytes; ++i) to[i] = from[i];
}

void matloom_lookup(void* output, const void* input, const uint8_t* table, uint32_t elements) {
  uint8_t* to = output;
  const uint8_t* from = input;
  for (uint32_t i = 0; i < elements; ++i) to[i] = table[from[i]];
}

static int32_t element(const void* input, uint32_t dtype, uint32_t number) {
  switch (dtype) {
    case MATLOOM_DTYPE_INT8:
      return ((const int8_t*)input)[number];
    case MATLOOM_DTYPE_UINT8:
      return ((const uint8_t*)input)[number];
    default:
      return ((const int16_t*)input)[number];
  }
}

static int32_t clamp(int32_t value, int32_t low, int32_t high) {
  return value < low ? low : value > high ? high : value;
}

/* Stores a number, or the nearest that the type has. */
static void store(void* output, uint32_t dtype, uint32_t number, int32_t value) {
  switch (dtype) {
    case MATLOOM_DTYPE_INT8:
      ((int8_t*)output)[number] = (int8_t)clamp(value, -128, 127);
      break;
    case MATLOOM_DTYPE_UINT8:
      ((uint8_t*)output)[number] = (uint8_t)clamp(value, 0, 255);
      break;
    default:
      ((int16_t*)output)[number] = (int16_t)clamp(value, -32768, 32767);
      break;
  }
}

/* A quotient as an integer, halves away from zero; all beyond 2**20 are beyond any type. */
static int32_t rounded(float quotient) {
  const double most = 1 << 20;
  const double wide = quotient;
  if (wide > most) return 1 << 20;
  if (wide < -most) return -(1 << 20);
  if (wide < 0) return -(int32_t)(0.5 - wide);
  return wide >= 0 ? (int32_t)(wide + 0.5) : 0; /* NaN becomes 0 */
}

void matloom_quantize(void* output, const float* input, uint32_t dtype, uint32_t elements,
                      float scale, int32_t zero_point) {
  for (uint32_t i = 0; i < elements; ++i) {
    store(output, dtype, i, rounded(input[i] / scale) + zero_point);
  }
}

void matloom_requantize(void* output, const void* input, struct matloom_integers made,
                        struct matloom_integers given, uint32_t elements,
                        struct matloom_scale scale) {
  for (uint32_t i = 0; i < elements; ++i) {
    const int64_t value = scaled(element(input, given.dtype, i) - given.zero_point, scale) + made.zero_point;
    const int64_t most = 1 << 20;
    store(output, made.dtype, i,
          (int32_t)(value > most ? most : value < -most ? -most : value));
  }
}

void matloom_dequantize(float* output, const void* input, uint32_t dtype, uint32_t elements,
                        double scale, int32_t zero_point) {
  for (uint32_t i = 0; i < elements; ++i) {
    output[i] = (float)(scale * (double)(element(input, dtype, i) - zero_point));
  }
}

/* NaN differs even from itself. */
static bool is_number(float value) { return value == value; }

/* Whether a number comes before another: it is more extreme, or none at all. */
static bool precedes(const void* input, uint32_t dtype, bool largest, uint32_t one,
                     uint32_t other) {
  if (dtype != MATLOOM_DTYPE_FLOAT32) {
    const int32_t first = element(input, dtype, one), second = element(input, dtype, other);
    return largest ? first > second : first < second;
  }
  const float first = ((const float*)input)[one], second = ((const float*)input)[other];
  if (!is_number(second)) return false;
  if (!is_number(first)) return true;
  return largest ? first > second : first < second;
}

void matloom_pick(int32_t* output, const void* input, uint32_t dtype, bool largest, uint32_t outer,
                  uint32_t length, uint32_t inner) {
  for (uint32_t i = 0; i < outer * inner; ++i) {
    const uint32_t start = i / inner * length * inner + i % inner;
    uint32_t best = 0;
    for (uint32_t at = 1; at < length; ++at) {
      if (precedes(input, dtype, largest, start + at * inner, start + best * inner)) best = at;
    }
    output[i] = (int32_t)best;
  }
}

bool matloom_gather(void* output, const void* input, const void* indices, uint32_t index_dtype,
                    struct matloom_slices from) {
  uint8_t* to = output;
  for (uint32_t i = 0; i < from.outer; ++i) {
    const uint8_t* slices = (const uint8_t*)input + i * from.length * from.bytes;
    for (uint32_t k = 0; k < from.count; ++k) {
      const int64_t index = index_dtype == MATLOOM_DTYPE_INT64 ? ((const int64_t*)indices)[k]
                                                               : ((const int32_t*)indices)[k];
      if (index < 0 || index >= (int64_t)from.length) return false;
      matloom_copy(to, slices + (uint32_t)index * from.bytes, from.bytes);
      to += from.bytes;
    }
  }
  return true;
}
