/* Rules of single records: tensors, constants, regions, bindings and commands. */
#include "internal.h"

bool matloom_same_text(const struct matloom_program* program, uint32_t one, uint32_t other) {
  const uint32_t bytes = WORD(program, TEXTS, one, BYTES);
  if (bytes != WORD(program, TEXTS, other, BYTES)) return false;
  const uint8_t* strings = begin_of(program, MATLOOM_SECTION_STRINGS);
  const uint8_t* first = strings + WORD(program, TEXTS, one, OFFSET);
  const uint8_t* second = strings + WORD(program, TEXTS, other, OFFSET);
  for (uint32_t i = 0; i < bytes; ++i) {
    if (first[i] != second[i]) return false;
  }
  return true;
}

bool matloom_same_shape(const struct matloom_program* program, struct range one,
                        struct range other) {
  if (one.count != other.count) return false;
  for (uint32_t i = 0; i < one.count; ++i) {
    if (matloom_integer(program, one.first + i) != matloom_integer(program, other.first + i)) return false;
  }
  return true;
}

uint32_t matloom_shape_bytes(const struct matloom_program* program, uint32_t dtype,
                             struct range shape) {
  static const uint8_t bytes[] = {MATLOOM_DTYPE_BYTES};
  uint32_t size = bytes[dtype];
  for (uint32_t i = 0; i < shape.count; ++i) {
    const int32_t length = matloom_integer(program, shape.first + i);
    if (length < 1 || size > MATLOOM_FILE_TENSOR_LIMIT / (uint32_t)length) return 0;
    size *= (uint32_t)length;
  }
  return size;
}

uint32_t matloom_tensor_bytes(const struct matloom_program* program, uint32_t number) {
  return matloom_shape_bytes(program, WORD(program, TENSORS, number, DTYPE),
                             RANGE(program, TENSORS, number, SHAPE));
}

uint32_t matloom_region_bytes(const struct matloom_program* program, uint32_t region) {
  return matloom_word(program, FIELD(NETWORK, PROGRAM_BYTES) + region, 0);
}

/* Whether a scale is positive and finite, by the bits of the double. */
static OUTLINE bool is_scale(const uint8_t* bytes) {
  const uint32_t high = load32(bytes + 4);
  return high < 0x7ff00000u && (high != 0 || load32(bytes) != 0);
}

/* Whether a zero point fits integers of a type, and the type may have a scale. */
static OUTLINE bool is_zero_point(int32_t zero, uint32_t dtype) {
  switch (dtype) {
    case MATLOOM_DTYPE_INT8:
      return zero >= -128 && zero <= 127;
    case MATLOOM_DTYPE_UINT8:
      return zero >= 0 && zero <= 255;
    case MATLOOM_DTYPE_INT16:
      return zero >= -32768 && zero <= 32767;
    default:
      return false;
  }
}

static bool is_quantised(const struct matloom_program* program, uint32_t number) {
  const uint8_t* scale = AT(program, TENSORS, number, SCALE);
  const int32_t zero = (int32_t)WORD(program, TENSORS, number, ZERO_POINT);
  if (WORD(program, TENSORS, number, QUANTISED) == 0) {
    return load32(scale) == 0 && load32(scale + 4) << 1 == 0 && zero == 0;
  }
  return is_scale(scale) && is_zero_point(zero, WORD(program, TENSORS, number, DTYPE));
}

static enum matloom_result check_tensors(struct matloom_program* program) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_TENSORS); ++i) {
    const uint32_t size = matloom_tensor_bytes(program, i);
    total += size;
    if (size == 0 || total > MATLOOM_FILE_TENSORS_LIMIT || !is_quantised(program, i)) {
      return matloom_refuse(program, MATLOOM_ERROR_TENSOR, MATLOOM_SECTION_TENSORS, i);
    }
    for (uint32_t other = 0; other < i; ++other) {
      if (matloom_same_text(program, WORD(program, TENSORS, i, NAME),
                            WORD(program, TENSORS, other, NAME))) {
        return matloom_refuse(program, MATLOOM_ERROR_TEXT, MATLOOM_SECTION_TENSORS, i);
      }
    }
  }
  return MATLOOM_OK;
}

/* Whether the scales of a constant fit its type and shape. */
static bool has_scales(const struct matloom_program* program, uint32_t number) {
  const struct range scales = RANGE(program, CONSTANTS, number, SCALES);
  const struct range zeros = RANGE(program, CONSTANTS, number, ZERO_POINTS);
  const struct range shape = RANGE(program, CONSTANTS, number, SHAPE);
  const int32_t axis = (int32_t)WORD(program, CONSTANTS, number, AXIS);
  uint32_t channels = 1;
  if (scales.count == 0) return zeros.count == 0 && axis < 0;
  if (axis >= 0) {
    if ((uint32_t)axis >= shape.count) return false;
    channels = (uint32_t)matloom_integer(program, shape.first + (uint32_t)axis);
  }
  if (scales.count != channels || zeros.count != channels) return false;
  for (uint32_t i = 0; i < channels; ++i) {
    if (!is_scale(AT(program, FLOATS, scales.first + i, VALUE)) ||
        !is_zero_point(matloom_integer(program, zeros.first + i),
                       WORD(program, CONSTANTS, number, DTYPE))) {
      return false;
    }
  }
  return true;
}

/* Whether a constant is as the tensor of its name, where there is one. */
static bool is_as_tensor(const struct matloom_program* program, uint32_t constant) {
  const uint32_t name = WORD(program, CONSTANTS, constant, NAME);
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_TENSORS); ++i) {
    if (matloom_same_text(program, name, WORD(program, TENSORS, i, NAME)) &&
        (WORD(program, TENSORS, i, DTYPE) != WORD(program, CONSTANTS, constant, DTYPE) ||
         !matloom_same_shape(program, RANGE(program, TENSORS, i, SHAPE),
                             RANGE(program, CONSTANTS, constant, SHAPE)))) {
      return false;
    }
  }
  return true;
}

static enum matloom_result check_constants(struct matloom_program* program) {
  const uint32_t bytes = count(program, MATLOOM_SECTION_HOST_DATA);
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_CONSTANTS); ++i) {
    const uint32_t offset = WORD(program, CONSTANTS, i, OFFSET);
    const uint32_t size = matloom_shape_bytes(program, WORD(program, CONSTANTS, i, DTYPE),
                                              RANGE(program, CONSTANTS, i, SHAPE));
    if (size == 0 || offset % MATLOOM_FILE_CONSTANT_ALIGNMENT != 0 || offset > bytes ||
        size > bytes - offset || !has_scales(program, i) || !is_as_tensor(program, i)) {
      return matloom_refuse(program, MATLOOM_ERROR_CONSTANT, MATLOOM_SECTION_CONSTANTS, i);
    }
    for (uint32_t other = 0; other < i; ++other) {
      if (matloom_same_text(program, WORD(program, CONSTANTS, i, NAME),
                            WORD(program, CONSTANTS, other, NAME))) {
        return matloom_refuse(program, MATLOOM_ERROR_TEXT, MATLOOM_SECTION_CONSTANTS, i);
      }
    }
  }
  return MATLOOM_OK;
}

/* Checks the bindings, and that regions INPUT and OUTPUT end with their last tensor. */
static enum matloom_result check_bindings(struct matloom_program* program) {
  uint32_t ends[4] = {0};
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_BINDINGS); ++i) {
    const uint32_t offset = WORD(program, BINDINGS, i, OFFSET);
    if (WORD(program, BINDINGS, i, TENSOR) >= count(program, MATLOOM_SECTION_TENSORS) ||
        offset % MATLOOM_FILE_ALIGNMENT != 0 || offset > MATLOOM_FILE_REGION_LIMIT) {
      return matloom_refuse(program, MATLOOM_ERROR_BINDING, MATLOOM_SECTION_BINDINGS, i);
    }
    const struct binding found = matloom_binding(program, i);
    if (found.span.end > ends[found.region]) ends[found.region] = found.span.end;
  }
  for (uint32_t region = MATLOOM_REGION_INPUT; region <= MATLOOM_REGION_OUTPUT; ++region) {
    const uint32_t bytes = matloom_region_bytes(program, region);
    if (bytes < ends[region] || bytes > round_up(ends[region], MATLOOM_FILE_ALIGNMENT)) {
      return matloom_refuse(program, MATLOOM_ERROR_REGION, MATLOOM_SECTION_NETWORK, 0);
    }
  }
  return MATLOOM_OK;
}

static enum matloom_result check_regions(struct matloom_program* program) {
  uint32_t total = 0;
  for (uint32_t region = 0; region < 4u; ++region) {
    const uint32_t bytes = matloom_region_bytes(program, region);
    if (bytes > MATLOOM_FILE_REGION_LIMIT - total) {
      return matloom_refuse(program, MATLOOM_ERROR_REGION, MATLOOM_SECTION_NETWORK, 0);
    }
    total += bytes;
  }
  if (WORD(program, NETWORK, 0u, PROGRAM_BYTES) != count(program, MATLOOM_SECTION_IMAGE)) {
    return matloom_refuse(program, MATLOOM_ERROR_REGION, MATLOOM_SECTION_NETWORK, 0);
  }
  return MATLOOM_OK;
}

enum matloom_result matloom_check_parts(struct matloom_program* program) {
  enum matloom_result result = check_tensors(program);
  if (result == MATLOOM_OK) result = check_constants(program);
  if (result == MATLOOM_OK) result = check_regions(program);
  if (result == MATLOOM_OK) result = check_bindings(program);
  return result;
}
