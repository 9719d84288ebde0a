/* A custom operator for TensorFlow Lite Micro that runs a compiled sub-graph on the engine.
 *
 * The operator's custom options are a Program file from `matloom compile` with engine steps only;
 * its inputs and outputs are those of the sub-graph, in order. Several such operators can share the
 * engine: if another one ran last, a program is attached again, so a sub-graph that keeps variables
 * must be the only one. */
#ifndef MATLOOM_EXAMPLES_TFLM_OP_H
#define MATLOOM_EXAMPLES_TFLM_OP_H

#include "matloom.h"
#include "tensorflow/lite/micro/kernels/kernel_util.h"

namespace matloom {

/* Name of the operator in a model, for `MicroMutableOpResolver::AddCustom`. */
constexpr char kOperator[] = "MATLOOM";

/* Gives operators a probed engine, and memory that both can access. Call it before the interpreter
 * allocates tensors; it forgets the operators of an earlier interpreter. */
void UseEngine(matloom_engine* engine, const matloom_memory& memory);

/* The registration for `AddCustom`. */
const TFLMRegistration* Register_MATLOOM();

}  // namespace matloom

#endif
