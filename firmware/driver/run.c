/* Whole runs: the steps of a network in order. */
#include "internal.h"

/* Runs a step of the engine: tensors in, commands, tensors out. */
static enum matloom_result run_engine(struct matloom_engine* engine, uint32_t step,
                                      void* const* tensors) {
  enum matloom_result result = matloom_write_inputs(engine, step, tensors);
  if (result == MATLOOM_OK) result = matloom_start(engine, step);
  if (result == MATLOOM_OK) result = matloom_wait(engine);
  if (result == MATLOOM_OK) result = matloom_read_outputs(engine, step, tensors);
  return result;
}

/* Carries the host's variables over to the next call. */
static void carry_over(const struct matloom_program* program, void* const* tensors) {
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_VARIABLES); ++i) {
    const uint8_t* variable = AT(program, VARIABLES, i);
    const uint32_t before = WORD(variable, VARIABLES, BEFORE);
    const uint32_t after = WORD(variable, VARIABLES, AFTER);
    if (matloom_variable_place(program, variable) == NULL) {
      matloom_copy_bytes(tensors[before], tensors[after], matloom_tensor_bytes(program, before));
    }
  }
}

enum matloom_result matloom_run(struct matloom_engine* engine, void* const* tensors,
                                matloom_host host, void* context) {
  const struct matloom_program* program = engine->attached.program;
  if (program == NULL || engine->attached.state_lost) return MATLOOM_ERROR_STATE;
  if (tensors == NULL) return MATLOOM_ERROR_ARGUMENT;
  engine->attached.state_lost = count(program, MATLOOM_SECTION_VARIABLES) != 0;
  for (uint32_t step = 0; step < count(program, MATLOOM_SECTION_STEPS); ++step) {
    const uint8_t* record = AT(program, STEPS, step);
    if (WORD(record, STEPS, KIND) == MATLOOM_STEP_HOST) {
      if (host == NULL || !host(context, program, step, tensors)) return MATLOOM_ERROR_HOST;
      continue;
    }
    const enum matloom_result result = run_engine(engine, WORD(record, STEPS, INDEX), tensors);
    if (result != MATLOOM_OK) return result;
  }
  carry_over(program, tensors);
  engine->attached.state_lost = false;
  return MATLOOM_OK;
}
