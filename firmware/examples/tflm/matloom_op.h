/* A custom operator of TensorFlow Lite Micro that runs a compiled sub-graph on the engine.
 *
 * The operator's custom options are a Program file as `matloom compile` writes it, whose steps are
 * all the engine's; its inputs and outputs are those of the sub-graph, in order. Several such
 * operators share the engine: the program is put into its memory again where another one ran last,
 * so that a sub-graph which keeps variables must be the only one. */
#ifndef MATLOOM_EXAMPLES_TFLM_OP_H
#define MATLOOM_EXAMPLES_TFLM_OP_H

#include "matloom.h"
#include "tensorflow/lite/micro/kernels/kernel_util.h"

namespace matloom {

/* Name of the operator in a model, for `MicroMutableOpResolver::AddCustom`. */
constexpr char kOperator[] = "MATLOOM";

/* Gives operators an engine that was probed, and memory that both reach. To be called before the
 * interpreter allocates tensors; forgets operators of an interpreter before. */
void UseEngine(matloom_engine* engine, const matloom_memory& memory);

/* What `AddCustom` takes. */
const TFLMRegistration* Register_MATLOOM();

}  // namespace matloom

#endif
