/* Rules of steps: their order, what they read and make, their commands and bindings. */
#include "internal.h"

/* Number of a constant that bears a tensor's name, or NONE. */
static uint32_t constant_of(const struct matloom_program* program, uint32_t tensor) {
  const uint32_t constants = count(program, MATLOOM_SECTION_CONSTANTS);
  for (uint32_t i = 0; i < constants; ++i) {
    if (matloom_same_text(program, WORD(program, CONSTANTS, i, NAME),
                          WORD(program, TENSORS, tensor, NAME))) {
      return i;
    }
  }
  return NONE;
}

struct range matloom_side(const struct matloom_program* program, uint32_t step, bool output) {
  const uint32_t index = WORD(program, STEPS, step, INDEX);
  if (WORD(program, STEPS, step, KIND) == MATLOOM_STEP_ENGINE) {
    return output ? RANGE(program, ENGINE_STEPS, index, OUTPUTS)
                  : RANGE(program, ENGINE_STEPS, index, INPUTS);
  }
  return output ? RANGE(program, HOST_STEPS, index, OUTPUTS)
                : RANGE(program, HOST_STEPS, index, INPUTS);
}

int32_t matloom_program_operand(const struct matloom_program* program, uint32_t step, bool output,
                                uint32_t place) {
  const uint32_t number = matloom_side(program, step, output).first + place;
  if (WORD(program, STEPS, step, KIND) == MATLOOM_STEP_ENGINE) {
    return (int32_t)WORD(program, BINDINGS, number, TENSOR);
  }
  return matloom_integer(program, number);
}

/* How often a list of integers has a number. */
static uint32_t times(const struct matloom_program* program, struct range list, uint32_t tensor) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < list.count; ++i) {
    if (matloom_integer(program, list.first + i) == (int32_t)tensor) ++found;
  }
  return found;
}

/* How often a step makes a tensor. */
static uint32_t makes(const struct matloom_program* program, uint32_t step, uint32_t tensor) {
  const uint32_t outputs = matloom_side(program, step, true).count;
  uint32_t found = 0;
  for (uint32_t i = 0; i < outputs; ++i) {
    if (matloom_program_operand(program, step, true, i) == (int32_t)tensor) ++found;
  }
  return found;
}

uint32_t matloom_provided(const struct matloom_program* program, uint32_t tensor, uint32_t step) {
  uint32_t found = times(program, RANGE(program, NETWORK, 0u, INPUTS), tensor);
  if (constant_of(program, tensor) != NONE) ++found;
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_VARIABLES); ++i) {
    if (WORD(program, VARIABLES, i, BEFORE) == tensor) ++found;
  }
  for (uint32_t i = 0; i < step; ++i) found += makes(program, i, tensor);
  return found;
}

/* Whether all numbers of a list are tensors. */
static bool are_tensors(const struct matloom_program* program, struct range list) {
  for (uint32_t i = 0; i < list.count; ++i) {
    const int32_t number = matloom_integer(program, list.first + i);
    if (number < 0 || (uint32_t)number >= count(program, MATLOOM_SECTION_TENSORS)) return false;
  }
  return true;
}

/* Whether all numbers of a list are tensors, or constants as -1 - n. */
static bool are_operands(const struct matloom_program* program, struct range list) {
  for (uint32_t i = 0; i < list.count; ++i) {
    const int32_t number = matloom_integer(program, list.first + i);
    const uint32_t most = count(program, number < 0 ? MATLOOM_SECTION_CONSTANTS
                                                    : MATLOOM_SECTION_TENSORS);
    if ((number < 0 ? (uint32_t)(-1 - number) : (uint32_t)number) >= most) return false;
  }
  return true;
}

/* Checks that steps of each kind follow each other, all of them, and name what there is. */
static enum matloom_result check_numbers(struct matloom_program* program) {
  uint32_t next[2] = {0};
  const uint32_t counts[2] = {count(program, MATLOOM_SECTION_ENGINE_STEPS),
                              count(program, MATLOOM_SECTION_HOST_STEPS)};
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_STEPS); ++i) {
    const uint32_t kind = WORD(program, STEPS, i, KIND);
    if (WORD(program, STEPS, i, INDEX) != next[kind] || next[kind] >= counts[kind] ||
        (kind == MATLOOM_STEP_HOST &&
         (!are_operands(program, matloom_side(program, i, false)) ||
          !are_tensors(program, matloom_side(program, i, true))))) {
      return matloom_refuse(program, MATLOOM_ERROR_ORDER, MATLOOM_SECTION_STEPS, i);
    }
    ++next[kind];
  }
  if (next[0] != counts[0] || next[1] != counts[1]) {
    return matloom_refuse(program, MATLOOM_ERROR_ORDER, MATLOOM_SECTION_STEPS, NONE);
  }
  return MATLOOM_OK;
}

/* Checks that a step finds what it reads, and makes what nothing else provides. */
static enum matloom_result check_flow(struct matloom_program* program, uint32_t step) {
  const uint32_t inputs = matloom_side(program, step, false).count;
  const uint32_t outputs = matloom_side(program, step, true).count;
  for (uint32_t i = 0; i < inputs; ++i) {
    const int32_t tensor = matloom_program_operand(program, step, false, i);
    if (tensor >= 0 && matloom_provided(program, (uint32_t)tensor, step) == 0) {
      return matloom_refuse(program, MATLOOM_ERROR_ORDER, MATLOOM_SECTION_STEPS, step);
    }
  }
  for (uint32_t i = 0; i < outputs; ++i) {
    const int32_t tensor = matloom_program_operand(program, step, true, i);
    if (matloom_provided(program, (uint32_t)tensor, step + 1u) != 1u) {
      return matloom_refuse(program, MATLOOM_ERROR_ORDER, MATLOOM_SECTION_STEPS, step);
    }
  }
  return MATLOOM_OK;
}

/* Checks the network's inputs and outputs: what is given once, and what is there in the end. */
static enum matloom_result check_ends(struct matloom_program* program) {
  const struct range inputs = RANGE(program, NETWORK, 0u, INPUTS);
  const struct range outputs = RANGE(program, NETWORK, 0u, OUTPUTS);
  const uint32_t steps = count(program, MATLOOM_SECTION_STEPS);
  for (uint32_t i = 0; i < inputs.count; ++i) {
    if (matloom_provided(program, (uint32_t)matloom_integer(program, inputs.first + i), 0) != 1u) {
      return matloom_refuse(program, MATLOOM_ERROR_ORDER, MATLOOM_SECTION_NETWORK, 0);
    }
  }
  for (uint32_t i = 0; i < outputs.count; ++i) {
    const uint32_t tensor = (uint32_t)matloom_integer(program, outputs.first + i);
    if (times(program, outputs, tensor) != 1u || matloom_provided(program, tensor, steps) == 0) {
      return matloom_refuse(program, MATLOOM_ERROR_ORDER, MATLOOM_SECTION_NETWORK, 0);
    }
  }
  return MATLOOM_OK;
}

/* Whether commands lie in the image, at multiples of 16. */
static bool has_commands(const struct matloom_program* program, struct range commands) {
  return commands.first % MATLOOM_END_BYTES == 0 && commands.count % MATLOOM_END_BYTES == 0 &&
         is_within(commands, count(program, MATLOOM_SECTION_IMAGE));
}

/* Whether the bytes that a repetition relies on lie in the scratchpad, ascending and apart. */
static bool is_kept(const struct matloom_program* program, struct range spans) {
  const struct range size =
      RANGE(program, CONFIGURATION, MATLOOM_CONFIGURATION_SPAD_BYTES - 1u, VALUES);
  const uint32_t most = (uint32_t)matloom_integer(program, size.first);
  uint32_t end = 0;
  for (uint32_t i = 0; i < spans.count; ++i) {
    const uint32_t start = WORD(program, SPANS, spans.first + i, START);
    if (start < end) return false;
    end = WORD(program, SPANS, spans.first + i, END);
    if (end <= start || end > most) return false;
  }
  return true;
}

/* Whether the bindings of one side lie in their region, or in ARENA, which variables check. */
static bool is_side(const struct matloom_program* program, struct range side, uint32_t region) {
  for (uint32_t i = 0; i < side.count; ++i) {
    const struct binding one = matloom_binding(program, side.first + i);
    if (one.region == MATLOOM_REGION_ARENA) continue;
    if (one.region != region) return false;
    for (uint32_t j = 0; j < i; ++j) {
      const struct binding other = matloom_binding(program, side.first + j);
      const bool same = one.span.start == other.span.start && one.span.end == other.span.end;
      if (other.region == region && overlap(one.span, other.span) && !same) return false;
    }
  }
  return true;
}

static enum matloom_result check_engine_step(struct matloom_program* program, uint32_t step) {
  const struct range repeat = RANGE(program, ENGINE_STEPS, step, REPEAT);
  /* Offset and bytes of commands are neighbours, as in a range. */
  if (!has_commands(program, RANGE(program, ENGINE_STEPS, step, COMMAND_OFFSET))) {
    return matloom_refuse(program, MATLOOM_ERROR_COMMANDS, MATLOOM_SECTION_ENGINE_STEPS, step);
  }
  if (repeat.count != 0 &&
      (!has_commands(program, RANGE(program, REPEATS, repeat.first, COMMAND_OFFSET)) ||
       !is_kept(program, RANGE(program, REPEATS, repeat.first, KEPT)))) {
    return matloom_refuse(program, MATLOOM_ERROR_COMMANDS, MATLOOM_SECTION_REPEATS, repeat.first);
  }
  if (!is_side(program, RANGE(program, ENGINE_STEPS, step, INPUTS), MATLOOM_REGION_INPUT) ||
      !is_side(program, RANGE(program, ENGINE_STEPS, step, OUTPUTS), MATLOOM_REGION_OUTPUT)) {
    return matloom_refuse(program, MATLOOM_ERROR_BINDING, MATLOOM_SECTION_ENGINE_STEPS, step);
  }
  return MATLOOM_OK;
}

enum matloom_result matloom_check_steps(struct matloom_program* program) {
  enum matloom_result result = check_numbers(program);
  if (result == MATLOOM_OK &&
      (!are_tensors(program, RANGE(program, NETWORK, 0u, INPUTS)) ||
       !are_tensors(program, RANGE(program, NETWORK, 0u, OUTPUTS)))) {
    result = matloom_refuse(program, MATLOOM_ERROR_ORDER, MATLOOM_SECTION_NETWORK, 0);
  }
  if (result == MATLOOM_OK) result = check_ends(program);
  for (uint32_t i = 0; result == MATLOOM_OK && i < count(program, MATLOOM_SECTION_STEPS); ++i) {
    result = check_flow(program, i);
  }
  for (uint32_t i = 0; result == MATLOOM_OK && i < count(program, MATLOOM_SECTION_ENGINE_STEPS);
       ++i) {
    result = check_engine_step(program, i);
  }
  return result;
}
