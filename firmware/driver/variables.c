/* Rules of variables: which tensors they are, where they begin, where they stay. */
#include "internal.h"

static OUTLINE bool has_place(const struct matloom_program* program, uint32_t variable) {
  return RANGE(program, VARIABLES, variable, PLACE).count != 0;
}

static OUTLINE struct binding place(const struct matloom_program* program, uint32_t variable) {
  return matloom_binding(program, RANGE(program, VARIABLES, variable, PLACE).first);
}

/* The variable on the device that a tensor is before or after a call, or NONE. */
static uint32_t placed(const struct matloom_program* program, uint32_t tensor, bool after) {
  for (uint32_t i = count(program, MATLOOM_SECTION_VARIABLES); i > 0; --i) {
    const uint32_t found = after ? WORD(program, VARIABLES, i - 1u, AFTER)
                                 : WORD(program, VARIABLES, i - 1u, BEFORE);
    if (found == tensor && has_place(program, i - 1u)) return i - 1u;
  }
  return NONE;
}

/* Whether the network or a step of the host uses a tensor. */
static bool crosses(const struct matloom_program* program, uint32_t tensor) {
  const struct range ends[2] = {RANGE(program, NETWORK, 0u, INPUTS),
                                RANGE(program, NETWORK, 0u, OUTPUTS)};
  for (uint32_t side = 0; side < 2u; ++side) {
    for (uint32_t i = 0; i < ends[side].count; ++i) {
      if (matloom_integer(program, ends[side].first + i) == (int32_t)tensor) return true;
    }
  }
  for (uint32_t step = 0; step < count(program, MATLOOM_SECTION_STEPS); ++step) {
    if (WORD(program, STEPS, step, KIND) != MATLOOM_STEP_HOST) continue;
    for (uint32_t side = 0; side < 2u; ++side) {
      const struct range list = matloom_side(program, step, side != 0);
      for (uint32_t i = 0; i < list.count; ++i) {
        if (matloom_integer(program, list.first + i) == (int32_t)tensor) return true;
      }
    }
  }
  return false;
}

/* Whether a variable's tensors are alike, one is made, and it begins within the host's data. */
static bool is_variable(const struct matloom_program* program, uint32_t variable) {
  const uint32_t before = WORD(program, VARIABLES, variable, BEFORE);
  const uint32_t after = WORD(program, VARIABLES, variable, AFTER);
  const uint32_t initial = WORD(program, VARIABLES, variable, INITIAL);
  const uint32_t bytes = count(program, MATLOOM_SECTION_HOST_DATA);
  const uint32_t size = matloom_tensor_bytes(program, before);
  return WORD(program, TENSORS, before, DTYPE) == WORD(program, TENSORS, after, DTYPE) &&
         matloom_same_shape(program, RANGE(program, TENSORS, before, SHAPE),
                            RANGE(program, TENSORS, after, SHAPE)) &&
         initial % MATLOOM_FILE_CONSTANT_ALIGNMENT == 0 && initial <= bytes &&
         size <= bytes - initial;
}

/* Whether the place of a variable on the device is in ARENA, apart from others before it. */
static bool is_placed(const struct matloom_program* program, uint32_t variable) {
  const uint32_t before = WORD(program, VARIABLES, variable, BEFORE);
  if (!has_place(program, variable)) return true;
  const struct binding own = place(program, variable);
  if (own.region != MATLOOM_REGION_ARENA || own.tensor != before ||
      own.span.end > matloom_region_bytes(program, MATLOOM_REGION_ARENA) || crosses(program, before) ||
      crosses(program, WORD(program, VARIABLES, variable, AFTER))) {
    return false;
  }
  for (uint32_t i = 0; i < variable; ++i) {
    if (has_place(program, i) && overlap(own.span, place(program, i).span)) return false;
  }
  return true;
}

/* Whether a step of the engine before another one binds a tensor as its output. */
static bool made_before(const struct matloom_program* program, uint32_t tensor, uint32_t step) {
  for (uint32_t i = 0; i < step; ++i) {
    const struct range side = RANGE(program, ENGINE_STEPS, i, OUTPUTS);
    for (uint32_t j = 0; j < side.count; ++j) {
      if (WORD(program, BINDINGS, side.first + j, TENSOR) == tensor) return true;
    }
  }
  return false;
}

/* Whether a tensor is in ARENA where a variable is there, and only then. */
static bool is_bound(const struct matloom_program* program, struct binding found,
                     uint32_t variable) {
  if (variable == NONE) return found.region != MATLOOM_REGION_ARENA;
  const struct binding own = place(program, variable);
  return found.region == own.region && found.span.start == own.span.start;
}

/* Whether a step of the engine finds variables where they are, before they are replaced. */
static bool finds_variables(const struct matloom_program* program, uint32_t step) {
  const struct range inputs = RANGE(program, ENGINE_STEPS, step, INPUTS);
  const struct range outputs = RANGE(program, ENGINE_STEPS, step, OUTPUTS);
  for (uint32_t i = 0; i < inputs.count; ++i) {
    const struct binding found = matloom_binding(program, inputs.first + i);
    const uint32_t variable = placed(program, found.tensor, false);
    if (!is_bound(program, found, variable) || placed(program, found.tensor, true) != NONE) {
      return false;
    }
    if (variable != NONE &&
        made_before(program, WORD(program, VARIABLES, variable, AFTER), step)) {
      return false;
    }
  }
  for (uint32_t i = 0; i < outputs.count; ++i) {
    const struct binding found = matloom_binding(program, outputs.first + i);
    if (!is_bound(program, found, placed(program, found.tensor, true))) return false;
  }
  return true;
}

/* Whether a variable's tensors are tensors, and its name and first tensor its own. */
static bool is_named(const struct matloom_program* program, uint32_t variable) {
  const uint32_t before = WORD(program, VARIABLES, variable, BEFORE);
  for (uint32_t i = 0; i < variable; ++i) {
    if (matloom_same_text(program, WORD(program, VARIABLES, i, NAME),
                          WORD(program, VARIABLES, variable, NAME))) {
      return false;
    }
  }
  return before < count(program, MATLOOM_SECTION_TENSORS) &&
         WORD(program, VARIABLES, variable, AFTER) < count(program, MATLOOM_SECTION_TENSORS) &&
         matloom_provided(program, before, 0) == 1u;
}

/* Whether a variable's new value is there in the end: of one on the device, by the engine. */
static bool is_made(const struct matloom_program* program, uint32_t variable) {
  const uint32_t after = WORD(program, VARIABLES, variable, AFTER);
  if (has_place(program, variable)) {
    return made_before(program, after, count(program, MATLOOM_SECTION_ENGINE_STEPS));
  }
  return matloom_provided(program, after, count(program, MATLOOM_SECTION_STEPS)) != 0;
}

enum matloom_result matloom_check_variables(struct matloom_program* program) {
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_VARIABLES); ++i) {
    if (!is_named(program, i) || !is_variable(program, i) || !is_placed(program, i) ||
        !is_made(program, i)) {
      return matloom_refuse(program, MATLOOM_ERROR_VARIABLE, MATLOOM_SECTION_VARIABLES, i);
    }
  }
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_ENGINE_STEPS); ++i) {
    if (!finds_variables(program, i)) {
      return matloom_refuse(program, MATLOOM_ERROR_VARIABLE, MATLOOM_SECTION_ENGINE_STEPS, i);
    }
  }
  return MATLOOM_OK;
}
