/* What a program that was opened says of its tensors and steps. */
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
  const uint32_t text = WORD(program, TENSORS, number, NAME);
  const uint8_t* scale = AT(program, TENSORS, number, SCALE);
  tensor->name =
      (const char*)begin_of(program, MATLOOM_SECTION_STRINGS) + WORD(program, TEXTS, text, OFFSET);
  tensor->name_bytes = WORD(program, TEXTS, text, BYTES);
  tensor->dtype = WORD(program, TENSORS, number, DTYPE);
  tensor->bytes = matloom_tensor_bytes(program, number);
  tensor->axes = RANGE(program, TENSORS, number, SHAPE).count;
  tensor->zero_point = (int32_t)WORD(program, TENSORS, number, ZERO_POINT);
  tensor->scale = (uint64_t)load32(scale + 4) << 32 | load32(scale);
  return MATLOOM_OK;
}

uint32_t matloom_program_axis(const struct matloom_program* program, uint32_t number,
                              uint32_t axis) {
  return (uint32_t)matloom_integer(program, RANGE(program, TENSORS, number, SHAPE).first + axis);
}

static enum matloom_result entry_of(const struct matloom_program* program, struct range list,
                                    uint32_t place, uint32_t* number) {
  if (place >= list.count) return MATLOOM_ERROR_ARGUMENT;
  *number = (uint32_t)matloom_integer(program, list.first + place);
  return MATLOOM_OK;
}

enum matloom_result matloom_program_input(const struct matloom_program* program, uint32_t place,
                                          uint32_t* number) {
  return entry_of(program, RANGE(program, NETWORK, 0u, INPUTS), place, number);
}

enum matloom_result matloom_program_output(const struct matloom_program* program, uint32_t place,
                                           uint32_t* number) {
  return entry_of(program, RANGE(program, NETWORK, 0u, OUTPUTS), place, number);
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
  info->kind = WORD(program, STEPS, step, KIND);
  info->index = WORD(program, STEPS, step, INDEX);
  info->operator_number =
      info->kind == MATLOOM_STEP_HOST ? WORD(program, HOST_STEPS, info->index, OPERATOR) : NONE;
  info->inputs = matloom_side(program, step, false).count;
  info->outputs = matloom_side(program, step, true).count;
  return MATLOOM_OK;
}

const void* matloom_program_constant(const struct matloom_program* program, uint32_t number) {
  return begin_of(program, MATLOOM_SECTION_HOST_DATA) + WORD(program, CONSTANTS, number, OFFSET);
}

uint32_t matloom_program_memory(const struct matloom_program* program, bool in_place) {
  uint32_t bytes = 0;
  for (uint32_t region = in_place ? 1u : 0u; region < 4u; ++region) {
    bytes += round_up(matloom_region_bytes(program, region), MATLOOM_FILE_ALIGNMENT);
  }
  return bytes;
}
