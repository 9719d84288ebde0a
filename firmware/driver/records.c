/* Access to records of a Program file: lists, names, sizes, places. */
#include "internal.h"

/* Records that are read by one function have their fields at the same offsets. */
#define SAME(one, other)                                                             \
  _Static_assert(MATLOOM_FILE_##one##_OFFSET == MATLOOM_FILE_##other##_OFFSET, \
                 "one function reads both")
SAME(TENSORS_NAME, CONSTANTS_NAME);
SAME(TENSORS_NAME, VARIABLES_NAME);
SAME(TENSORS_DTYPE, CONSTANTS_DTYPE);
SAME(TENSORS_SHAPE, CONSTANTS_SHAPE);
SAME(ENGINE_STEPS_INPUTS, HOST_STEPS_INPUTS);
SAME(ENGINE_STEPS_OUTPUTS, HOST_STEPS_OUTPUTS);
SAME(ENGINE_STEPS_COMMAND_OFFSET, REPEATS_COMMAND_OFFSET);
SAME(ATTRIBUTES_KIND, CONFIGURATION_KIND);
SAME(ATTRIBUTES_VALUES, CONFIGURATION_VALUES);

uint32_t matloom_times(struct list list, uint32_t bytes, uint32_t number) {
  uint32_t found = 0;
  EACH_OF(list, bytes) {
    if (load32(list.first) == number) ++found;
  }
  return found;
}

struct list matloom_side(const struct matloom_program* program, uint32_t step, bool output) {
  const uint8_t* record = AT(program, STEPS, step);
  const bool host = WORD(record, STEPS, KIND) != MATLOOM_STEP_ENGINE;
  const uint8_t* own = matloom_record(
      program, host ? MATLOOM_SECTION_HOST_STEPS : MATLOOM_SECTION_ENGINE_STEPS,
      WORD(record, STEPS, INDEX));
  return matloom_list(program,
                      output ? FIELD(own, HOST_STEPS, OUTPUTS) : FIELD(own, HOST_STEPS, INPUTS),
                      host ? MATLOOM_SECTION_INTEGERS : MATLOOM_SECTION_BINDINGS);
}

uint32_t matloom_side_bytes(const struct matloom_program* program, uint32_t step) {
  const uint8_t* record = AT(program, STEPS, step);
  return WORD(record, STEPS, KIND) == MATLOOM_STEP_ENGINE ? BYTES(BINDINGS) : BYTES(INTEGERS);
}

int32_t matloom_program_operand(const struct matloom_program* program, uint32_t step, bool output,
                                uint32_t place) {
  const struct list side = matloom_side(program, step, output);
  return (int32_t)load32(side.first + place * matloom_side_bytes(program, step));
}

/* Whether two texts, records of TEXTS, have the same bytes. */
static bool same_text(const struct matloom_program* program, const uint8_t* one,
                      const uint8_t* other) {
  const uint8_t* strings = begin_of(program, MATLOOM_SECTION_STRINGS);
  const uint8_t* first = strings + WORD(one, TEXTS, OFFSET);
  const uint8_t* second = strings + WORD(other, TEXTS, OFFSET);
  uint32_t bytes = WORD(one, TEXTS, BYTES);
  if (bytes != WORD(other, TEXTS, BYTES)) return false;
  while (bytes > 0 && *first == *second) {
    ++first;
    ++second;
    --bytes;
  }
  return bytes == 0;
}

uint32_t matloom_named(const struct matloom_program* program, uint32_t section, uint32_t text) {
  const uint8_t* own = AT(program, TEXTS, text);
  uint32_t i = 0;
  for (; i < count(program, section); ++i) {
    const uint32_t name = load32(matloom_record(program, section, i));
    if (same_text(program, own, AT(program, TEXTS, name))) break;
  }
  return i;
}

uint32_t matloom_bytes(const struct matloom_program* program, const uint8_t* record) {
  static const uint8_t bytes[] = {MATLOOM_DTYPE_BYTES};
  struct list shape = LIST(program, record, TENSORS, SHAPE, INTEGERS);
  uint32_t size = bytes[WORD(record, TENSORS, DTYPE)];
  EACH_OF(shape, BYTES(INTEGERS)) {
    const uint32_t axis = load32(shape.first);
    if (axis - 1u >= MATLOOM_FILE_TENSOR_LIMIT || size > MATLOOM_FILE_TENSOR_LIMIT / axis) return 0;
    size *= axis;
  }
  return size;
}

uint32_t matloom_tensor_bytes(const struct matloom_program* program, uint32_t number) {
  return matloom_bytes(program, AT(program, TENSORS, number));
}

bool matloom_alike(const struct matloom_program* program, const uint8_t* one,
                   const uint8_t* other) {
  struct list shape = LIST(program, one, TENSORS, SHAPE, INTEGERS);
  const uint8_t* second = LIST(program, other, TENSORS, SHAPE, INTEGERS).first;
  if (WORD(one, TENSORS, DTYPE) != WORD(other, TENSORS, DTYPE) ||
      shape.count != LENGTH(other, TENSORS, SHAPE)) {
    return false;
  }
  EACH_OF(shape, BYTES(INTEGERS)) {
    if (load32(shape.first) != load32(second)) return false;
    second += BYTES(INTEGERS);
  }
  return true;
}

uint32_t matloom_region_bytes(const struct matloom_program* program, uint32_t region) {
  const uint8_t* network = begin_of(program, MATLOOM_SECTION_NETWORK);
  return load32(FIELD(network, NETWORK, PROGRAM_BYTES) + 4u * region);
}

uint32_t matloom_end(const struct matloom_program* program, const uint8_t* binding) {
  return WORD(binding, BINDINGS, OFFSET) +
         matloom_tensor_bytes(program, WORD(binding, BINDINGS, TENSOR));
}

const uint8_t* matloom_variable_place(const struct matloom_program* program,
                                      const uint8_t* variable) {
  const struct list place = LIST(program, variable, VARIABLES, PLACE, BINDINGS);
  return place.count == 0 ? NULL : place.first;
}
