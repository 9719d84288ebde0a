/* Loops of a network: programs that run on the same engine until a condition ends them. */
#include "matloom_kernels.h"

enum matloom_result matloom_inner_open(struct matloom_engine* engine, struct matloom_inner* inner,
                                       struct matloom_memory* memory) {
  const struct matloom_attached none = {0};
  enum matloom_result result = matloom_program_use(&inner->program, inner->file, inner->bytes);
  if (result == MATLOOM_OK) result = matloom_attach(engine, &inner->program, memory);
  if (result != MATLOOM_OK) return result;
  const uint32_t taken = matloom_program_memory(&inner->program, false);
  inner->attached = none;
  matloom_exchange(engine, &inner->attached);
  memory->address = (uint8_t*)memory->address + taken;
  memory->bus += taken;
  memory->bytes -= taken;
  return MATLOOM_OK;
}

/* Copies values; those of an iteration go to the row of its number. */
static void move(struct matloom_moves moves, uint32_t iteration) {
  for (uint32_t i = 0; i < moves.count; ++i) {
    const struct matloom_move* each = &moves.first[i];
    matloom_copy((uint8_t*)each->to + iteration * each->bytes, each->from, each->bytes);
  }
}

static bool run(struct matloom_engine* engine, const struct matloom_inner* inner) {
  return matloom_run(engine, inner->tensors, inner->host, engine) == MATLOOM_OK;
}

/* Decides whether there is another iteration; returns false if that fails. */
static bool ask(struct matloom_engine* engine, const struct matloom_loop* loop, uint32_t iteration,
                bool* again) {
  if (loop->condition == NULL) {
    *again = *loop->goes_on != 0 && (int64_t)iteration < *loop->most;
    *loop->iteration = iteration;
    return true;
  }
  matloom_exchange(engine, &loop->condition->attached);
  const bool ran = run(engine, loop->condition);
  matloom_exchange(engine, &loop->condition->attached);
  *again = *loop->goes_on != 0;
  return ran;
}

/* Runs all iterations, with the body's program attached. */
static bool run_iterations(struct matloom_engine* engine, const struct matloom_loop* loop) {
  void* const* tensors = loop->body->tensors;
  if (matloom_write_state(engine, tensors, loop->begin) != MATLOOM_OK) return false;
  for (uint32_t iteration = 0;; ++iteration) {
    bool again;
    move(loop->entering, 0);
    if (!ask(engine, loop, iteration, &again)) return false;
    if (!again) {
      return (loop->stacked.count == 0 || iteration == loop->iterations) &&
             matloom_read_state(engine, tensors, loop->end) == MATLOOM_OK;
    }
    if (loop->stacked.count != 0 && iteration == loop->iterations) return false;
    if (!run(engine, loop->body)) return false;
    move(loop->leaving, 0);
    move(loop->stacked, iteration);
  }
}

bool matloom_loop(struct matloom_engine* engine, const struct matloom_loop* loop) {
  move(loop->before, 0);
  matloom_exchange(engine, &loop->body->attached);
  const bool ran = run_iterations(engine, loop);
  matloom_exchange(engine, &loop->body->attached);
  move(loop->after, 0);
  return ran;
}
