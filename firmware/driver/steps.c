/* Rules for steps: order, inputs and outputs, commands and bindings. */
#include "rules.h"

uint32_t matloom_provided(const struct matloom_program* program, uint32_t tensor, uint32_t step) {
  const uint8_t* network = begin_of(program, MATLOOM_SECTION_NETWORK);
  const uint8_t* own = AT(program, TENSORS, tensor);
  uint32_t found =
      matloom_times(LIST(program, network, NETWORK, INPUTS, INTEGERS), BYTES(INTEGERS),
                                 tensor);
  if (matloom_named(program, MATLOOM_SECTION_CONSTANTS, WORD(own, TENSORS, NAME)) !=
      count(program, MATLOOM_SECTION_CONSTANTS)) {
    ++found;
  }
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_VARIABLES); ++i) {
    if (WORD(AT(program, VARIABLES, i), VARIABLES, BEFORE) == tensor) ++found;
  }
  while (step-- > 0) {
    found += matloom_times(matloom_side(program, step, true), matloom_side_bytes(program, step),
                           tensor);
  }
  return found;
}

/* Whether all numbers of a list are tensors, or, where it may have them, constants as -1 - n. */
static bool are_operands(const struct matloom_program* program, struct list list, bool constants) {
  EACH_OF(list, BYTES(INTEGERS)) {
    const uint32_t number = load32(list.first);
    if (number < count(program, MATLOOM_SECTION_TENSORS)) continue;
    if (!constants || ~number >= count(program, MATLOOM_SECTION_CONSTANTS)) return false;
  }
  return true;
}

RULE(is_step) {
  const uint32_t kind = WORD(record, STEPS, KIND);
  const uint32_t place = WORD(record, STEPS, INDEX);
  const uint32_t section =
      kind == MATLOOM_STEP_ENGINE ? MATLOOM_SECTION_ENGINE_STEPS : MATLOOM_SECTION_HOST_STEPS;
  if (place != seen->steps[kind]++ || place >= count(program, section)) return false;
  return kind == MATLOOM_STEP_ENGINE ||
         (are_operands(program, matloom_side(program, number, false), true) &&
          are_operands(program, matloom_side(program, number, true), false));
}

RULE(has_steps) {
  UNUSED(record);
  UNUSED(number);
  return seen->steps[MATLOOM_STEP_ENGINE] == count(program, MATLOOM_SECTION_ENGINE_STEPS) &&
         seen->steps[MATLOOM_STEP_HOST] == count(program, MATLOOM_SECTION_HOST_STEPS);
}

/* Whether all tensors of a list are provided before a step, `most` times at most. */
static OUTLINE bool are_provided(const struct matloom_program* program, struct list list,
                                 uint32_t bytes, uint32_t step, uint32_t most) {
  EACH_OF(list, bytes) {
    const uint32_t tensor = load32(list.first);
    if (tensor >= count(program, MATLOOM_SECTION_TENSORS)) continue; /* a constant */
    if (matloom_provided(program, tensor, step) - 1u >= most) return false;
  }
  return true;
}

RULE(is_network) {
  const struct list inputs = LIST(program, record, NETWORK, INPUTS, INTEGERS);
  const struct list outputs = LIST(program, record, NETWORK, OUTPUTS, INTEGERS);
  struct list rest = outputs;
  UNUSED(number);
  UNUSED(seen);
  if (!are_operands(program, inputs, false) || !are_operands(program, outputs, false) ||
      !are_provided(program, inputs, BYTES(INTEGERS), 0, 1u) ||
      !are_provided(program, outputs, BYTES(INTEGERS), count(program, MATLOOM_SECTION_STEPS),
                    NONE)) {
    return false;
  }
  EACH_OF(rest, BYTES(INTEGERS)) {
    if (matloom_times(outputs, BYTES(INTEGERS), load32(rest.first)) != 1u) return false;
  }
  return true;
}

RULE(finds_inputs) {
  UNUSED(record);
  const uint32_t bytes = matloom_side_bytes(program, number);
  UNUSED(seen);
  return are_provided(program, matloom_side(program, number, false), bytes, number, NONE) &&
         are_provided(program, matloom_side(program, number, true), bytes, number + 1u, 1u);
}

RULE(keeps_spans) {
  struct list spans = LIST(program, record, REPEATS, KEPT, SPANS);
  const uint8_t* size = AT(program, CONFIGURATION, MATLOOM_CONFIGURATION_SPAD_BYTES - 1u);
  const uint32_t most =
      load32(LIST(program, size, CONFIGURATION, VALUES, INTEGERS).first);
  uint32_t end = 0;
  UNUSED(number);
  UNUSED(seen);
  EACH_OF(spans, BYTES(SPANS)) {
    const uint8_t* span = spans.first;
    if (WORD(span, SPANS, START) < end) return false;
    end = WORD(span, SPANS, END);
    if (end <= WORD(span, SPANS, START) || end > most) return false;
  }
  return true;
}

bool matloom_overlap(const struct matloom_program* program, const uint8_t* one,
                     const uint8_t* other) {
  return WORD(one, BINDINGS, OFFSET) < matloom_end(program, other) &&
         WORD(other, BINDINGS, OFFSET) < matloom_end(program, one);
}

/* Whether two bindings of a region have the same bytes, or none in common. */
static bool same_or_apart(const struct matloom_program* program, const uint8_t* one,
                          const uint8_t* other) {
  if (WORD(one, BINDINGS, REGION) != WORD(other, BINDINGS, REGION)) return true;
  if (WORD(one, BINDINGS, OFFSET) != WORD(other, BINDINGS, OFFSET)) {
    return !matloom_overlap(program, one, other);
  }
  return matloom_end(program, one) == matloom_end(program, other);
}

/* Whether the bindings of one side lie in their region, or in ARENA, which variables check. */
static OUTLINE bool is_side(const struct matloom_program* program, struct list side,
                            uint32_t region) {
  EACH_OF(side, BYTES(BINDINGS)) {
    const uint8_t* one = side.first;
    struct list rest = side;
    if (WORD(one, BINDINGS, REGION) == MATLOOM_REGION_ARENA) continue;
    if (WORD(one, BINDINGS, REGION) != region) return false;
    EACH_OF(rest, BYTES(BINDINGS)) {
      if (!same_or_apart(program, one, rest.first)) return false;
    }
  }
  return true;
}

RULE(has_bindings) {
  const struct list inputs = LIST(program, record, ENGINE_STEPS, INPUTS, BINDINGS);
  const struct list outputs = LIST(program, record, ENGINE_STEPS, OUTPUTS, BINDINGS);
  UNUSED(number);
  UNUSED(seen);
  return is_side(program, inputs, MATLOOM_REGION_INPUT) &&
         is_side(program, outputs, MATLOOM_REGION_OUTPUT);
}
