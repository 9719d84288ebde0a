/* Tensors on their way in and out of regions, and whole runs. */
#include "internal.h"

/* Where a binding lies, as the processor sees it. */
static OUTLINE uint8_t* place_of(const struct matloom_engine* engine, struct binding found) {
  return engine->region[found.region] + found.span.start;
}

static OUTLINE void copy(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) to[i] = from[i];
}

/* Joins sums of int32: the engine leaves four planes of signed bytes, the lowest first. */
static void join_planes(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  const uint32_t plane = bytes / 4u;
  for (uint32_t i = 0; i < plane; ++i) {
    const uint32_t sum = (uint32_t)(int8_t)from[i] +
                         ((uint32_t)(int8_t)from[plane + i] << 8) +
                         ((uint32_t)(int8_t)from[2u * plane + i] << 15) +
                         ((uint32_t)(int8_t)from[3u * plane + i] << 22);
    for (uint32_t byte = 0; byte < 4u; ++byte) to[4u * i + byte] = (uint8_t)(sum >> 8u * byte);
  }
}

/* Copies variables' first values: of those on the device to ARENA, of others to `tensors`. */
static void begin(struct matloom_engine* engine, void* const* tensors) {
  const struct matloom_program* program = engine->program;
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_VARIABLES); ++i) {
    const uint32_t tensor = WORD(program, VARIABLES, i, BEFORE);
    const uint32_t bytes = matloom_tensor_bytes(program, tensor);
    const struct range where = RANGE(program, VARIABLES, i, PLACE);
    const uint8_t* initial =
        begin_of(program, MATLOOM_SECTION_HOST_DATA) + WORD(program, VARIABLES, i, INITIAL);
    if (where.count == 0) {
      if (tensors != NULL) copy(tensors[tensor], initial, bytes);
      continue;
    }
    uint8_t* place = place_of(engine, matloom_binding(program, where.first));
    copy(place, initial, bytes);
    if (engine->port.clean != NULL) engine->port.clean(engine->port.context, place, bytes);
  }
}

/* Number of the variables that the host keeps. */
static uint32_t kept_by_host(const struct matloom_program* program) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_VARIABLES); ++i) {
    if (RANGE(program, VARIABLES, i, PLACE).count == 0) ++found;
  }
  return found;
}

void matloom_begin_placed(struct matloom_engine* engine) {
  begin(engine, NULL);
  engine->state_lost = kept_by_host(engine->program) != 0;
}

enum matloom_result matloom_reset_state(struct matloom_engine* engine, void* const* tensors) {
  if (engine->program == NULL || engine->unfinished) return MATLOOM_ERROR_STATE;
  if (tensors == NULL && kept_by_host(engine->program) != 0) return MATLOOM_ERROR_ARGUMENT;
  begin(engine, tensors);
  engine->state_lost = false;
  return MATLOOM_OK;
}

void matloom_drop_outputs(const struct matloom_engine* engine) {
  const uint32_t bytes = matloom_region_bytes(engine->program, MATLOOM_REGION_OUTPUT);
  if (engine->port.invalidate != NULL) {
    engine->port.invalidate(engine->port.context, engine->region[MATLOOM_REGION_OUTPUT], bytes);
  }
}

void* matloom_place(const struct matloom_engine* engine, uint32_t tensor) {
  const struct matloom_program* program = engine->program;
  if (program == NULL) return NULL;
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_BINDINGS); ++i) {
    const struct binding found = matloom_binding(program, i);
    const bool planes = found.region == MATLOOM_REGION_OUTPUT &&
                        WORD(program, TENSORS, tensor, DTYPE) == MATLOOM_DTYPE_INT32;
    if (found.tensor == tensor && !planes) return place_of(engine, found);
  }
  return NULL;
}

/* Whether tensors of a step may be moved now. */
static enum matloom_result check_move(const struct matloom_engine* engine, uint32_t step,
                                      void* const* tensors) {
  if (engine->program == NULL || engine->stopped || engine->unfinished) {
    return MATLOOM_ERROR_STATE;
  }
  if (tensors == NULL || step >= count(engine->program, MATLOOM_SECTION_ENGINE_STEPS)) {
    return MATLOOM_ERROR_ARGUMENT;
  }
  return MATLOOM_OK;
}

enum matloom_result matloom_write_inputs(struct matloom_engine* engine, uint32_t step,
                                         void* const* tensors) {
  const enum matloom_result result = check_move(engine, step, tensors);
  if (result != MATLOOM_OK) return result;
  const struct range side = RANGE(engine->program, ENGINE_STEPS, step, INPUTS);
  for (uint32_t i = 0; i < side.count; ++i) {
    const struct binding found = matloom_binding(engine->program, side.first + i);
    uint8_t* place = place_of(engine, found);
    const uint32_t bytes = found.span.end - found.span.start;
    if (found.region == MATLOOM_REGION_ARENA) continue;
    if (tensors[found.tensor] == NULL) return MATLOOM_ERROR_ARGUMENT;
    if (tensors[found.tensor] != place) copy(place, tensors[found.tensor], bytes);
    if (engine->port.clean != NULL) engine->port.clean(engine->port.context, place, bytes);
  }
  return MATLOOM_OK;
}

enum matloom_result matloom_read_outputs(struct matloom_engine* engine, uint32_t step,
                                         void* const* tensors) {
  const enum matloom_result result = check_move(engine, step, tensors);
  if (result != MATLOOM_OK) return result;
  const struct range side = RANGE(engine->program, ENGINE_STEPS, step, OUTPUTS);
  for (uint32_t i = 0; i < side.count; ++i) {
    const struct binding found = matloom_binding(engine->program, side.first + i);
    const uint8_t* place = place_of(engine, found);
    const uint32_t bytes = found.span.end - found.span.start;
    const bool planes =
        WORD(engine->program, TENSORS, found.tensor, DTYPE) == MATLOOM_DTYPE_INT32;
    if (found.region == MATLOOM_REGION_ARENA) continue;
    if (tensors[found.tensor] == NULL || (planes && tensors[found.tensor] == place)) {
      return MATLOOM_ERROR_ARGUMENT;
    }
    if (planes) {
      join_planes(tensors[found.tensor], place, bytes);
    } else if (tensors[found.tensor] != place) {
      copy(tensors[found.tensor], place, bytes);
    }
  }
  return MATLOOM_OK;
}

/* Runs a step of the engine: tensors in, commands, tensors out. */
static enum matloom_result run_engine(struct matloom_engine* engine, uint32_t step,
                                      void* const* tensors) {
  enum matloom_result result = matloom_write_inputs(engine, step, tensors);
  if (result == MATLOOM_OK) result = matloom_start(engine, step);
  if (result == MATLOOM_OK) result = matloom_wait(engine);
  if (result == MATLOOM_OK) result = matloom_read_outputs(engine, step, tensors);
  return result;
}

/* Lets the next call begin with what this one left of the host's variables. */
static void carry_over(const struct matloom_program* program, void* const* tensors) {
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_VARIABLES); ++i) {
    const uint32_t before = WORD(program, VARIABLES, i, BEFORE);
    const uint32_t after = WORD(program, VARIABLES, i, AFTER);
    if (RANGE(program, VARIABLES, i, PLACE).count == 0 && tensors[before] != tensors[after]) {
      copy(tensors[before], tensors[after], matloom_tensor_bytes(program, before));
    }
  }
}

enum matloom_result matloom_run(struct matloom_engine* engine, void* const* tensors,
                                matloom_host host, void* context) {
  const struct matloom_program* program = engine->program;
  if (program == NULL || engine->state_lost) return MATLOOM_ERROR_STATE;
  if (tensors == NULL) return MATLOOM_ERROR_ARGUMENT;
  engine->state_lost = count(program, MATLOOM_SECTION_VARIABLES) != 0;
  for (uint32_t step = 0; step < count(program, MATLOOM_SECTION_STEPS); ++step) {
    if (WORD(program, STEPS, step, KIND) == MATLOOM_STEP_HOST) {
      if (host == NULL || !host(context, program, step, tensors)) return MATLOOM_ERROR_HOST;
      continue;
    }
    const uint32_t index = WORD(program, STEPS, step, INDEX);
    const enum matloom_result result = run_engine(engine, index, tensors);
    if (result != MATLOOM_OK) return result;
  }
  carry_over(program, tensors);
  engine->state_lost = false;
  return MATLOOM_OK;
}
