/* Copies tensors into and out of regions, and the values of variables. */
#include "internal.h"

/* Address of a binding, as the processor sees it. */
static OUTLINE uint8_t* place_of(const struct matloom_engine* engine, const uint8_t* binding) {
  return engine->attached.region[WORD(binding, BINDINGS, REGION)] + WORD(binding, BINDINGS, OFFSET);
}

void matloom_copy_bytes(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  for (uint32_t i = 0; to != from && i < bytes; ++i) to[i] = from[i];
}

void matloom_bring(const struct matloom_engine* engine, uint8_t* place, const uint8_t* from,
                   uint32_t bytes) {
  matloom_copy_bytes(place, from, bytes);
  if (engine->port.clean != NULL) engine->port.clean(engine->port.context, place, bytes);
}

/* Joins int32 sums: the engine leaves four planes of signed bytes, the lowest first. */
static void join_planes(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  const uint32_t plane = bytes / 4u;
  for (const uint8_t* end = from + plane; from != end; ++from) {
    uint32_t sum = (uint32_t)(int8_t)from[0];
    uint32_t shift = 8;
    for (uint32_t at = plane; at != bytes; at += plane) {
      sum += (uint32_t)(int8_t)from[at] << shift;
      shift += 7u;
    }
    for (shift = 0; shift != 32u; shift += 8u) *to++ = (uint8_t)(sum >> shift);
  }
}

/* Address of a variable, on the device or in `tensors`; NULL if neither. */
static OUTLINE uint8_t* variable_at(const struct matloom_engine* engine, const uint8_t* variable,
                                    void* const* tensors) {
  const uint8_t* binding = matloom_variable_place(engine->attached.program, variable);
  if (binding != NULL) return place_of(engine, binding);
  return tensors == NULL ? NULL : tensors[WORD(variable, VARIABLES, BEFORE)];
}

/* Sets variables to `values`, or to their initial values if NULL. Returns whether some have no
 * address. */
static bool begin(const struct matloom_engine* engine, void* const* tensors,
                  const void* const* values) {
  const struct matloom_program* program = engine->attached.program;
  const uint8_t* first = begin_of(program, MATLOOM_SECTION_HOST_DATA);
  bool lost = false;
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_VARIABLES); ++i) {
    const uint8_t* variable = AT(program, VARIABLES, i);
    const void* from = values == NULL ? first + WORD(variable, VARIABLES, INITIAL) : values[i];
    const uint32_t bytes = matloom_tensor_bytes(program, WORD(variable, VARIABLES, BEFORE));
    uint8_t* place = variable_at(engine, variable, tensors);
    if (place == NULL) {
      lost = true;
    } else if (matloom_variable_place(program, variable) != NULL) {
      matloom_bring(engine, place, from, bytes);
    } else {
      matloom_copy_bytes(place, from, bytes);
    }
  }
  return lost;
}

void matloom_begin_placed(struct matloom_engine* engine) {
  engine->attached.state_lost = begin(engine, NULL, NULL);
}

enum matloom_result matloom_write_state(struct matloom_engine* engine, void* const* tensors,
                                        const void* const* values) {
  if (engine->attached.program == NULL || engine->unfinished) return MATLOOM_ERROR_STATE;
  engine->attached.state_lost = begin(engine, tensors, values);
  return engine->attached.state_lost ? MATLOOM_ERROR_ARGUMENT : MATLOOM_OK;
}

enum matloom_result matloom_reset_state(struct matloom_engine* engine, void* const* tensors) {
  return matloom_write_state(engine, tensors, NULL);
}

enum matloom_result matloom_read_state(const struct matloom_engine* engine, void* const* tensors,
                                       void* const* values) {
  const struct matloom_program* program = engine->attached.program;
  if (program == NULL || engine->unfinished || engine->attached.state_lost) {
    return MATLOOM_ERROR_STATE;
  }
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_VARIABLES); ++i) {
    const uint8_t* variable = AT(program, VARIABLES, i);
    const uint32_t bytes = matloom_tensor_bytes(program, WORD(variable, VARIABLES, BEFORE));
    uint8_t* place = variable_at(engine, variable, tensors);
    if (place == NULL) return MATLOOM_ERROR_ARGUMENT;
    if (engine->port.invalidate != NULL && matloom_variable_place(program, variable) != NULL) {
      engine->port.invalidate(engine->port.context, place, bytes);
    }
    matloom_copy_bytes(values[i], place, bytes);
  }
  return MATLOOM_OK;
}

void matloom_drop_outputs(const struct matloom_engine* engine) {
  const uint32_t bytes = matloom_region_bytes(engine->attached.program, MATLOOM_REGION_OUTPUT);
  if (engine->port.invalidate != NULL) {
    engine->port.invalidate(engine->port.context, engine->attached.region[MATLOOM_REGION_OUTPUT], bytes);
  }
}

void* matloom_place(const struct matloom_engine* engine, uint32_t tensor) {
  const struct matloom_program* program = engine->attached.program;
  if (program == NULL) return NULL;
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_BINDINGS); ++i) {
    const uint8_t* binding = AT(program, BINDINGS, i);
    /* First: of a number that is no tensor's nothing may be read. */
    if (WORD(binding, BINDINGS, TENSOR) != tensor) continue;
    if (WORD(binding, BINDINGS, REGION) != MATLOOM_REGION_OUTPUT ||
        WORD(AT(program, TENSORS, tensor), TENSORS, DTYPE) != MATLOOM_DTYPE_INT32) {
      return place_of(engine, binding);
    }
  }
  return NULL;
}

/* Whether tensors of a step may be moved now. */
static enum matloom_result check_move(const struct matloom_engine* engine, uint32_t step,
                                      void* const* tensors) {
  if (engine->attached.program == NULL || engine->stopped || engine->unfinished) {
    return MATLOOM_ERROR_STATE;
  }
  if (tensors == NULL || step >= count(engine->attached.program, MATLOOM_SECTION_ENGINE_STEPS)) {
    return MATLOOM_ERROR_ARGUMENT;
  }
  return MATLOOM_OK;
}

/* Copies a tensor into or out of its region; one whose pointer is its place stays there. */
static bool move(const struct matloom_engine* engine, const uint8_t* binding, void* tensor,
                 bool output) {
  const uint32_t number = WORD(binding, BINDINGS, TENSOR);
  const uint32_t bytes = matloom_tensor_bytes(engine->attached.program, number);
  uint8_t* place = place_of(engine, binding);
  if (tensor == NULL) return false;
  if (!output) {
    matloom_bring(engine, place, tensor, bytes);
  } else if (WORD(AT(engine->attached.program, TENSORS, number), TENSORS, DTYPE) == MATLOOM_DTYPE_INT32) {
    if (tensor == place) return false;
    join_planes(tensor, place, bytes);
  } else {
    matloom_copy_bytes(tensor, place, bytes);
  }
  return true;
}

/* Copies the tensors of one side of a step, except for variables, which stay in place. */
static OUTLINE enum matloom_result move_side(const struct matloom_engine* engine, uint32_t step,
                                             void* const* tensors, bool output) {
  const enum matloom_result result = check_move(engine, step, tensors);
  if (result != MATLOOM_OK) return result;
  const uint8_t* record = AT(engine->attached.program, ENGINE_STEPS, step);
  struct list side = matloom_list(
      engine->attached.program,
      output ? FIELD(record, ENGINE_STEPS, OUTPUTS) : FIELD(record, ENGINE_STEPS, INPUTS),
      MATLOOM_SECTION_BINDINGS);
  EACH_OF(side, BYTES(BINDINGS)) {
    const uint8_t* binding = side.first;
    if (WORD(binding, BINDINGS, REGION) == MATLOOM_REGION_ARENA) continue;
    if (!move(engine, binding, tensors[WORD(binding, BINDINGS, TENSOR)], output)) {
      return MATLOOM_ERROR_ARGUMENT;
    }
  }
  return MATLOOM_OK;
}

enum matloom_result matloom_write_inputs(const struct matloom_engine* engine, uint32_t step,
                                         void* const* tensors) {
  return move_side(engine, step, tensors, false);
}

enum matloom_result matloom_read_outputs(const struct matloom_engine* engine, uint32_t step,
                                         void* const* tensors) {
  return move_side(engine, step, tensors, true);
}
