/* Operators of ONNX at the ends of networks, and transposes, as ONNX Runtime computes them. */
#include "fixed_point.h"

/* The nearest integer, halves to the even one: floats from 2**23 on have no other. */
static float rounded_to_even(float value) {
  const float wide = 12582912.0f;
  const volatile float sum = value + wide; /* of no more bits than a float has */
  return sum - wide;
}

void matloom_onnx_quantize(void* output, const float* input, uint32_t elements, float scale,
                           struct matloom_integers made) {
  uint8_t* to = output;
  const int32_t least = made.dtype == MATLOOM_DTYPE_INT8 ? -128 : 0;
  const float low = (float)(least - made.zero_point), high = low + 255.0f;
  for (uint32_t i = 0; i < elements; ++i) {
    float value = input[i] / scale;
    if (!(value > low)) value = low;
    if (value > high) value = high;
    to[i] = (uint8_t)((int32_t)rounded_to_even(value) + made.zero_point);
  }
}

void matloom_onnx_softmax(void* output, const void* input, const float* table, uint32_t rows,
                          uint32_t columns, float levels, struct matloom_integers made) {
  const uint32_t flip = made.dtype == MATLOOM_DTYPE_INT8 ? 128u : 0u;
  for (uint32_t row = 0; row < rows; ++row) {
    const uint8_t* from = (const uint8_t*)input + row * columns;
    uint8_t* to = (uint8_t*)output + row * columns;
    uint32_t most = 0;
    float sum = 0.0f;
    for (uint32_t i = 0; i < columns; ++i) {
      const uint32_t value = from[i] ^ flip;
      if (value > most) most = value;
    }
    const float* own = table + 255u - most;
    for (uint32_t i = 0; i < columns; ++i) sum += own[from[i] ^ flip];
    for (uint32_t i = 0; i < columns; ++i) {
      const float share = own[from[i] ^ flip] * levels / sum;
      const int32_t value = (int32_t)rounded_to_even(share) + made.zero_point;
      to[i] = (uint8_t)(value > 255 ? 255 : value);
    }
  }
}

void matloom_transpose(void* output, const void* input, uint32_t bytes, uint32_t axes,
                       const uint32_t* lengths, const uint32_t* strides) {
  uint8_t* to = output;
  uint32_t elements = 1;
  for (uint32_t axis = 0; axis < axes; ++axis) elements *= lengths[axis];
  for (uint32_t i = 0; i < elements; ++i) {
    const uint8_t* from = input;
    uint32_t rest = i;
    for (uint32_t axis = axes; axis-- > 0;) {
      from += rest % lengths[axis] * strides[axis];
      rest /= lengths[axis];
    }
    for (uint32_t byte = 0; byte < bytes; ++byte) *to++ = from[byte];
  }
}
