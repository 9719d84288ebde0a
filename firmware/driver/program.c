/* Tensors and steps of an opened program. */
#include "internal.h"

uint32_t matloom_program_tensors(const struct matloom_program* program) {
  return count(program, MATLOOM_SECTION_TENSORS);
}

uint32_t matloom_program_steps(const struct matloom_program* program) {
  return count(program, MATLOOM_SECTION_STEPS);
}

uint32_t matloom_program_variables(const struct matloom_program* program) {
  return count(program, MATLOOM_SECTION_VARIABLES);
}

enum matloom_result matloom_program_tensor(const struct matloom_program* program, uint32_t number,
                                           struct matloom_tensor* tensor) {
  if (number >= matloom_program_tensors(program)) return MATLOOM_ERROR_ARGUMENT;
  const uint8_t* record = AT(program, TENSORS, number);
  const uint8_t* text = AT(program, TEXTS, WORD(record, TENSORS, NAME));
  const uint8_t* scale = FIELD(record, TENSORS, SCALE);
  tensor->name =
      (const char*)begin_of(program, MATLOOM_SECTION_STRINGS) + WORD(text, TEXTS, OFFSET);
  tensor->name_bytes = WORD(text, TEXTS, BYTES);
  tensor->dtype = WORD(record, TENSORS, DTYPE);
  tensor->bytes = matloom_bytes(program, record);
  tensor->axes = LENGTH(record, TENSORS, SHAPE);
  tensor->zero_point = (int32_t)WORD(record, TENSORS, ZERO_POINT);
  tensor->scale = (uint64_t)load32(scale + 4) << 32 | load32(scale);
  return MATLOOM_OK;
}

uint32_t matloom_program_axis(const struct matloom_program* program, uint32_t number,
                              uint32_t axis) {
  const uint8_t* record = AT(program, TENSORS, number);
  return load32(LIST(program, record, TENSORS, SHAPE, INTEGERS).first +
                BYTES(INTEGERS) * axis);
}

static enum matloom_result entry_of(const struct matloom_program* program, uint32_t offset,
                                    uint32_t place, uint32_t* number) {
  const struct list list = matloom_list(
      program, begin_of(program, MATLOOM_SECTION_NETWORK) + offset, MATLOOM_SECTION_INTEGERS);
  if (place >= list.count) return MATLOOM_ERROR_ARGUMENT;
  *number = load32(list.first + BYTES(INTEGERS) * place);
  return MATLOOM_OK;
}

enum matloom_result matloom_program_input(const struct matloom_program* program, uint32_t place,
                                          uint32_t* number) {
  return entry_of(program, MATLOOM_FILE_NETWORK_INPUTS_OFFSET, place, number);
}

enum matloom_result matloom_program_output(const struct matloom_program* program, uint32_t place,
                                           uint32_t* number) {
  return entry_of(program, MATLOOM_FILE_NETWORK_OUTPUTS_OFFSET, place, number);
}

enum matloom_result matloom_program_find(const struct matloom_program* program, const char* name,
                                         uint32_t* number) {
  struct matloom_tensor tensor;
  for (uint32_t i = 0; matloom_program_tensor(program, i, &tensor) == MATLOOM_OK; ++i) {
    uint32_t same = 0;
    while (same < tensor.name_bytes && name[same] == tensor.name[same]) ++same;
    if (same == tensor.name_bytes && name[same] == '\0') {
      *number = i;
      return MATLOOM_OK;
    }
  }
  return MATLOOM_ERROR_ARGUMENT;
}

enum matloom_result matloom_program_step(const struct matloom_program* program, uint32_t step,
                                         struct matloom_step_info* info) {
  if (step >= matloom_program_steps(program)) return MATLOOM_ERROR_ARGUMENT;
  const uint8_t* record = AT(program, STEPS, step);
  info->kind = WORD(record, STEPS, KIND);
  info->index = WORD(record, STEPS, INDEX);
  info->operator_number =
      info->kind == MATLOOM_STEP_HOST
          ? WORD(AT(program, HOST_STEPS, info->index), HOST_STEPS, OPERATOR)
          : NONE;
  info->inputs = matloom_side(program, step, false).count;
  info->outputs = matloom_side(program, step, true).count;
  return MATLOOM_OK;
}

const void* matloom_program_constant(const struct matloom_program* program, uint32_t number) {
  return begin_of(program, MATLOOM_SECTION_HOST_DATA) +
         WORD(AT(program, CONSTANTS, number), CONSTANTS, OFFSET);
}

uint32_t matloom_program_memory(const struct matloom_program* program, bool in_place) {
  uint32_t bytes = 0;
  for (uint32_t region = in_place ? 1u : 0u; region < 4u; ++region) {
    bytes += round_up(matloom_region_bytes(program, region));
  }
  return bytes;
}
