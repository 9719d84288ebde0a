/* Rules for variables: their tensors, initial values and places. */
#include "rules.h"

/* The variable on the device for a tensor, before or after a call as `field` says; or NULL. */
static OUTLINE const uint8_t* placed(const struct matloom_program* program, uint32_t tensor,
                                     uint32_t field) {
  for (uint32_t i = count(program, MATLOOM_SECTION_VARIABLES); i-- > 0;) {
    const uint8_t* variable = AT(program, VARIABLES, i);
    if (load32(variable + field) == tensor && matloom_variable_place(program, variable) != NULL) {
      return variable;
    }
  }
  return NULL;
}

/* How often a tensor is among a record's inputs and outputs, which follow each other. */
static uint32_t times_both(const struct matloom_program* program, const uint8_t* inputs,
                           uint32_t tensor) {
  return matloom_times(matloom_list(program, inputs, MATLOOM_SECTION_INTEGERS), BYTES(INTEGERS),
                       tensor) +
         matloom_times(matloom_list(program, inputs + 8, MATLOOM_SECTION_INTEGERS),
                       BYTES(INTEGERS), tensor);
}

/* Whether the network or a host step uses a tensor. */
static OUTLINE bool crosses(const struct matloom_program* program, uint32_t tensor) {
  const uint8_t* network = begin_of(program, MATLOOM_SECTION_NETWORK);
  uint32_t found = times_both(program, FIELD(network, NETWORK, INPUTS), tensor);
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_HOST_STEPS); ++i) {
    const uint8_t* step = AT(program, HOST_STEPS, i);
    found += times_both(program, FIELD(step, HOST_STEPS, INPUTS), tensor);
  }
  return found != 0;
}

/* Whether a step of the engine before another one binds a tensor as its output. */
static OUTLINE bool made_before(const struct matloom_program* program, uint32_t tensor,
                                uint32_t step) {
  while (step-- > 0) {
    const uint8_t* record = AT(program, ENGINE_STEPS, step);
    const struct list outputs = LIST(program, record, ENGINE_STEPS, OUTPUTS, BINDINGS);
    if (matloom_times(outputs, BYTES(BINDINGS), tensor) != 0) return true;
  }
  return false;
}

/* Whether a step provides a variable's new value; on the device, an engine step. */
static bool is_made(const struct matloom_program* program, const uint8_t* variable) {
  const uint32_t after = WORD(variable, VARIABLES, AFTER);
  if (matloom_variable_place(program, variable) != NULL) {
    return made_before(program, after, count(program, MATLOOM_SECTION_ENGINE_STEPS));
  }
  return matloom_provided(program, after, count(program, MATLOOM_SECTION_STEPS)) != 0;
}

RULE(is_variable) {
  const uint32_t before = WORD(record, VARIABLES, BEFORE);
  const uint32_t after = WORD(record, VARIABLES, AFTER);
  UNUSED(number);
  UNUSED(seen);
  const uint8_t* own = AT(program, TENSORS, before);
  return matloom_provided(program, before, 0) == 1u &&
         matloom_alike(program, own, AT(program, TENSORS, after)) &&
         matloom_is_host_data(program, WORD(record, VARIABLES, INITIAL),
                              matloom_bytes(program, own)) &&
         is_made(program, record);
}

RULE(is_placed) {
  const uint8_t* own = matloom_variable_place(program, record);
  UNUSED(seen);
  if (own == NULL) return true;
  if (WORD(own, BINDINGS, REGION) != MATLOOM_REGION_ARENA ||
      WORD(own, BINDINGS, TENSOR) != WORD(record, VARIABLES, BEFORE) ||
      matloom_end(program, own) > matloom_region_bytes(program, MATLOOM_REGION_ARENA) ||
      crosses(program, WORD(record, VARIABLES, BEFORE)) ||
      crosses(program, WORD(record, VARIABLES, AFTER))) {
    return false;
  }
  while (number-- > 0) {
    const uint8_t* other = matloom_variable_place(program, AT(program, VARIABLES, number));
    if (other != NULL && matloom_overlap(program, own, other)) return false;
  }
  return true;
}

/* Whether a tensor is in ARENA exactly if it is a variable there. */
static OUTLINE bool is_bound(const struct matloom_program* program, const uint8_t* binding,
                             const uint8_t* variable) {
  const uint32_t region = WORD(binding, BINDINGS, REGION);
  if (variable == NULL) return region != MATLOOM_REGION_ARENA;
  const uint8_t* own = matloom_variable_place(program, variable);
  return region == MATLOOM_REGION_ARENA &&
         WORD(binding, BINDINGS, OFFSET) == WORD(own, BINDINGS, OFFSET);
}

RULE(finds_variables) {
  struct list inputs = LIST(program, record, ENGINE_STEPS, INPUTS, BINDINGS);
  struct list outputs = LIST(program, record, ENGINE_STEPS, OUTPUTS, BINDINGS);
  UNUSED(seen);
  EACH_OF(inputs, BYTES(BINDINGS)) {
    const uint8_t* binding = inputs.first;
    const uint32_t tensor = WORD(binding, BINDINGS, TENSOR);
    const uint8_t* variable = placed(program, tensor, MATLOOM_FILE_VARIABLES_BEFORE_OFFSET);
    if (!is_bound(program, binding, variable) ||
        placed(program, tensor, MATLOOM_FILE_VARIABLES_AFTER_OFFSET) != NULL ||
        (variable != NULL && made_before(program, WORD(variable, VARIABLES, AFTER), number))) {
      return false;
    }
  }
  EACH_OF(outputs, BYTES(BINDINGS)) {
    const uint8_t* binding = outputs.first;
    const uint32_t tensor = WORD(binding, BINDINGS, TENSOR);
    if (!is_bound(program, binding,
                  placed(program, tensor, MATLOOM_FILE_VARIABLES_AFTER_OFFSET))) {
      return false;
    }
  }
  return true;
}
