/* Rules for tensors, constants, regions and bindings. */
#include "rules.h"

RULE(is_named_once) {
  return matloom_named(program, seen->section, load32(record)) == number;
}

/* Whether a scale, the bits of a double, is positive and finite, a zero point fits integers of a
 * type, and the type may have a scale. */
static OUTLINE bool is_quantised(const uint8_t* scale, uint32_t zero, uint32_t dtype) {
  const uint32_t high = load32(scale + 4);
  if (high >= 0x7ff00000u || (high | load32(scale)) == 0) return false;
  switch (dtype) {
    case MATLOOM_DTYPE_INT8:
      return zero + 128u < 256u;
    case MATLOOM_DTYPE_UINT8:
      return zero < 256u;
    default:
      return dtype == MATLOOM_DTYPE_INT16 && zero + 32768u < 65536u;
  }
}

RULE(is_tensor) {
  const uint8_t* scale = FIELD(record, TENSORS, SCALE);
  const uint32_t zero = WORD(record, TENSORS, ZERO_POINT);
  const uint32_t size = matloom_bytes(program, record);
  UNUSED(number);
  seen->tensors += size;
  if (size == 0 || seen->tensors > MATLOOM_FILE_TENSORS_LIMIT) return false;
  if (WORD(record, TENSORS, QUANTISED) == 0) {
    return (load32(scale) | load32(scale + 4) << 1 | zero) == 0;
  }
  return is_quantised(scale, zero, WORD(record, TENSORS, DTYPE));
}

/* Whether the scales of a constant fit its type and shape. */
static bool has_scales(const struct matloom_program* program, const uint8_t* record) {
  struct list scales = LIST(program, record, CONSTANTS, SCALES, FLOATS);
  const struct list zeros = LIST(program, record, CONSTANTS, ZERO_POINTS, INTEGERS);
  const struct list shape = LIST(program, record, CONSTANTS, SHAPE, INTEGERS);
  const uint32_t axis = WORD(record, CONSTANTS, AXIS);
  const uint8_t* zero = zeros.first;
  if (zeros.count != scales.count) return false;
  if (axis == NONE) {
    if (scales.count > 1u) return false;
  } else if (axis >= shape.count || load32(shape.first + BYTES(INTEGERS) * axis) != scales.count) {
    return false;
  }
  EACH_OF(scales, BYTES(FLOATS)) {
    if (!is_quantised(scales.first, load32(zero), WORD(record, CONSTANTS, DTYPE))) return false;
    zero += BYTES(INTEGERS);
  }
  return true;
}

bool matloom_is_host_data(const struct matloom_program* program, uint32_t offset,
                          uint32_t bytes) {
  const uint32_t size = count(program, MATLOOM_SECTION_HOST_DATA);
  return offset <= size && bytes <= size - offset;
}

RULE(is_constant) {
  const uint32_t size = matloom_bytes(program, record);
  const uint32_t tensor =
      matloom_named(program, MATLOOM_SECTION_TENSORS, WORD(record, CONSTANTS, NAME));
  UNUSED(number);
  UNUSED(seen);
  return size != 0 && matloom_is_host_data(program, WORD(record, CONSTANTS, OFFSET), size) &&
         has_scales(program, record) &&
         (tensor == count(program, MATLOOM_SECTION_TENSORS) ||
          matloom_alike(program, AT(program, TENSORS, tensor), record));
}

RULE(ends_in_region) {
  uint32_t* end = &seen->ends[WORD(record, BINDINGS, REGION)];
  const uint32_t own = matloom_end(program, record);
  UNUSED(number);
  if (own > *end) *end = own;
  return true;
}

RULE(has_regions) {
  uint32_t total = 0;
  UNUSED(number);
  for (uint32_t region = 0; region < 4u; ++region) {
    const uint32_t bytes = matloom_region_bytes(program, region);
    total += bytes;
    if (region != MATLOOM_REGION_INPUT && region != MATLOOM_REGION_OUTPUT) continue;
    if (bytes < seen->ends[region] || bytes > round_up(seen->ends[region])) return false;
  }
  return total <= MATLOOM_FILE_REGION_LIMIT &&
         WORD(record, NETWORK, PROGRAM_BYTES) == count(program, MATLOOM_SECTION_IMAGE);
}
