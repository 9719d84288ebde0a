/* Integers and booleans element by element, choices between tensors, and parts of tensors. */
#include "matloom_kernels.h"

/* An element of integers or booleans, as 64 bits; those of uint64 from 2**63 on are below zero. */
static int64_t integer(const void* input, uint32_t dtype, uint32_t number) {
  switch (dtype) {
    case MATLOOM_DTYPE_INT8:
      return ((const int8_t*)input)[number];
    case MATLOOM_DTYPE_INT16:
      return ((const int16_t*)input)[number];
    case MATLOOM_DTYPE_UINT16:
      return ((const uint16_t*)input)[number];
    case MATLOOM_DTYPE_INT32:
      return ((const int32_t*)input)[number];
    case MATLOOM_DTYPE_UINT32:
      return ((const uint32_t*)input)[number];
    case MATLOOM_DTYPE_INT64:
    case MATLOOM_DTYPE_UINT64:
      return ((const int64_t*)input)[number];
    default:
      return ((const uint8_t*)input)[number];
  }
}

/* Stores the lower bits of an integer; of booleans, whether it is not zero. */
static void store(void* output, uint32_t dtype, uint32_t number, uint64_t value) {
  switch (dtype) {
    case MATLOOM_DTYPE_BOOL:
      ((uint8_t*)output)[number] = value != 0;
      break;
    case MATLOOM_DTYPE_INT16:
    case MATLOOM_DTYPE_UINT16:
      ((uint16_t*)output)[number] = (uint16_t)value;
      break;
    case MATLOOM_DTYPE_INT32:
    case MATLOOM_DTYPE_UINT32:
      ((uint32_t*)output)[number] = (uint32_t)value;
      break;
    case MATLOOM_DTYPE_INT64:
    case MATLOOM_DTYPE_UINT64:
      ((uint64_t*)output)[number] = value;
      break;
    default:
      ((uint8_t*)output)[number] = (uint8_t)value;
      break;
  }
}

static uint64_t combined(uint32_t operation, int64_t one, int64_t other) {
  switch (operation) {
    case MATLOOM_ADD:
      return (uint64_t)one + (uint64_t)other;
    case MATLOOM_SUBTRACT:
      return (uint64_t)one - (uint64_t)other;
    case MATLOOM_MULTIPLY:
      return (uint64_t)one * (uint64_t)other;
    case MATLOOM_MINIMUM:
      return (uint64_t)(one < other ? one : other);
    case MATLOOM_MAXIMUM:
      return (uint64_t)(one > other ? one : other);
    case MATLOOM_LESS:
      return one < other;
    case MATLOOM_LESS_EQUAL:
      return one <= other;
    case MATLOOM_EQUAL:
      return one == other;
    default:
      return one != other;
  }
}

void matloom_combine(void* output, const void* one, const void* other, uint32_t made,
                     uint32_t given, uint32_t operation, uint32_t elements, uint32_t step,
                     uint32_t other_step) {
  for (uint32_t i = 0; i < elements; ++i) {
    const int64_t first = integer(one, given, i * step);
    const int64_t second = integer(other, given, i * other_step);
    store(output, made, i, combined(operation, first, second));
  }
}

void matloom_convert(void* output, const void* input, uint32_t made, uint32_t given,
                     uint32_t elements) {
  for (uint32_t i = 0; i < elements; ++i) {
    store(output, made, i, (uint64_t)integer(input, given, i));
  }
}

void matloom_reduce(void* output, const void* input, uint32_t dtype, uint32_t operation,
                    uint32_t outer, uint32_t length, uint32_t inner) {
  for (uint32_t i = 0; i < outer * inner; ++i) {
    const uint32_t start = i / inner * length * inner + i % inner;
    store(output, dtype, i, (uint64_t)integer(input, dtype, start));
    for (uint32_t at = 1; at < length; ++at) {
      const int64_t next = integer(input, dtype, start + at * inner);
      store(output, dtype, i, combined(operation, integer(output, dtype, i), next));
    }
  }
}

void matloom_select(void* output, const uint8_t* condition, const void* one, const void* other,
                    uint32_t dtype, uint32_t elements, uint32_t condition_step) {
  static const uint8_t sizes[] = {MATLOOM_DTYPE_BYTES};
  const uint32_t bytes = sizes[dtype];
  for (uint32_t i = 0; i < elements; ++i) {
    const uint8_t* from = condition[i * condition_step] != 0 ? one : other;
    matloom_copy((uint8_t*)output + i * bytes, from + i * bytes, bytes);
  }
}

void matloom_copy_parts(void* output, const void* input, uint32_t count, uint32_t bytes,
                        uint32_t step, uint32_t input_step) {
  for (uint32_t i = 0; i < count; ++i) {
    matloom_copy((uint8_t*)output + i * step, (const uint8_t*)input + i * input_step, bytes);
  }
}
