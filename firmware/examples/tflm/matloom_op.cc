#include "matloom_op.h"

#include "tensorflow/lite/micro/micro_log.h"

namespace matloom {
namespace {

/* What all operators of an interpreter share. */
struct Shared {
  matloom_engine* engine;
  matloom_memory memory;
  const void* attached;  // the operator that ran last
  uint32_t operators;
  bool has_variables;
};

/* One operator of a model. */
struct Operator {
  matloom_program program;
  matloom_result opened;
  void** tensors;  // by the program's numbers
};

Shared shared;

TfLiteStatus Fail(const char* what, matloom_result result) {
  MicroPrintf("MATLOOM: %s: %s", what, matloom_result_text(result));
  return kTfLiteError;
}

/* Opens the program where the model lies: options begin at a multiple of four there. */
void* Init(TfLiteContext* context, const char* buffer, size_t length) {
  auto* op = static_cast<Operator*>(context->AllocatePersistentBuffer(context, sizeof(Operator)));
  if (op == nullptr) return nullptr;
  op->tensors = nullptr;
  op->opened = matloom_program_open(&op->program, buffer, length);
  return op;
}

uint32_t Count(const TfLiteIntArray* list) { return static_cast<uint32_t>(list->size); }

/* Whether the program has as many inputs and outputs as the node, and steps of the engine alone. */
bool Fits(const matloom_program& program, const TfLiteNode& node) {
  uint32_t number = 0;
  matloom_step_info step;
  for (uint32_t i = 0; matloom_program_step(&program, i, &step) == MATLOOM_OK; ++i) {
    if (step.kind != MATLOOM_STEP_ENGINE) return false;
  }
  const uint32_t inputs = Count(node.inputs), outputs = Count(node.outputs);
  return matloom_program_input(&program, inputs - 1, &number) == MATLOOM_OK &&
         matloom_program_input(&program, inputs, &number) != MATLOOM_OK &&
         matloom_program_output(&program, outputs - 1, &number) == MATLOOM_OK &&
         matloom_program_output(&program, outputs, &number) != MATLOOM_OK;
}

/* Whether a tensor is an input or output, which the interpreter provides. */
bool IsEnd(const matloom_program& program, uint32_t tensor) {
  uint32_t number = 0;
  for (uint32_t i = 0; matloom_program_input(&program, i, &number) == MATLOOM_OK; ++i) {
    if (number == tensor) return true;
  }
  for (uint32_t i = 0; matloom_program_output(&program, i, &number) == MATLOOM_OK; ++i) {
    if (number == tensor) return true;
  }
  return false;
}

/* Buffers for tensors between the program's steps. */
bool Allocate(TfLiteContext* context, Operator* op) {
  const uint32_t count = matloom_program_tensors(&op->program);
  op->tensors =
      static_cast<void**>(context->AllocatePersistentBuffer(context, count * sizeof(void*)));
  if (op->tensors == nullptr) return false;
  for (uint32_t i = 0; i < count; ++i) {
    matloom_tensor tensor;
    op->tensors[i] = nullptr;
    if (IsEnd(op->program, i)) continue;
    (void)matloom_program_tensor(&op->program, i, &tensor);
    op->tensors[i] = context->AllocatePersistentBuffer(context, tensor.bytes);
    if (op->tensors[i] == nullptr) return false;
  }
  return true;
}

TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  auto* op = static_cast<Operator*>(node->user_data);
  if (op == nullptr || shared.engine == nullptr) return Fail("no engine", MATLOOM_ERROR_STATE);
  if (op->opened != MATLOOM_OK) return Fail("its options", op->opened);
  if (!Fits(op->program, *node)) return Fail("another graph", MATLOOM_ERROR_ARGUMENT);
  if (matloom_program_memory(&op->program, false) > shared.memory.bytes) {
    return Fail("memory of the engine", MATLOOM_ERROR_MEMORY);
  }
  shared.has_variables |= matloom_program_variables(&op->program) != 0;
  if (++shared.operators > 1 && shared.has_variables) {
    return Fail("one that keeps variables must be alone", MATLOOM_ERROR_VARIABLE);
  }
  return Allocate(context, op) ? kTfLiteOk : Fail("the arena", MATLOOM_ERROR_MEMORY);
}

uint32_t Dtype(TfLiteType type) {
  switch (type) {
    case kTfLiteInt8:
      return MATLOOM_DTYPE_INT8;
    case kTfLiteUInt8:
      return MATLOOM_DTYPE_UINT8;
    case kTfLiteInt16:
      return MATLOOM_DTYPE_INT16;
    case kTfLiteInt32:
      return MATLOOM_DTYPE_INT32;
    default:
      return UINT32_MAX;
  }
}

/* Takes a tensor of the node for one of the program; false where they differ. */
bool Take(const Operator& op, uint32_t number, const TfLiteEvalTensor& found) {
  matloom_tensor tensor;
  if (matloom_program_tensor(&op.program, number, &tensor) != MATLOOM_OK) return false;
  if (Dtype(found.type) != tensor.dtype || Count(found.dims) != tensor.axes) return false;
  for (uint32_t i = 0; i < tensor.axes; ++i) {
    const auto length = static_cast<uint32_t>(found.dims->data[i]);
    if (length != matloom_program_axis(&op.program, number, i)) return false;
  }
  op.tensors[number] = found.data.data;
  return true;
}

bool TakeAll(const TfLiteContext& context, const TfLiteNode& node, const Operator& op) {
  uint32_t number = 0;
  for (int i = 0; i < node.inputs->size; ++i) {
    (void)matloom_program_input(&op.program, static_cast<uint32_t>(i), &number);
    if (!Take(op, number, *tflite::micro::GetEvalInput(&context, &node, i))) return false;
  }
  for (int i = 0; i < node.outputs->size; ++i) {
    (void)matloom_program_output(&op.program, static_cast<uint32_t>(i), &number);
    if (!Take(op, number, *tflite::micro::GetEvalOutput(&context, &node, i))) return false;
  }
  return true;
}

/* Attaches the program, where it is not, and runs it. */
matloom_result Run(Operator* op) {
  matloom_result result = MATLOOM_OK;
  if (shared.attached != op) {
    result = matloom_attach(shared.engine, &op->program, &shared.memory);
    if (result == MATLOOM_OK) result = matloom_reset_state(shared.engine, op->tensors);
    shared.attached = op;
  }
  if (result == MATLOOM_OK) result = matloom_run(shared.engine, op->tensors, nullptr, nullptr);
  return result;
}

TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  auto* op = static_cast<Operator*>(node->user_data);
  if (!TakeAll(*context, *node, *op)) return Fail("its tensors", MATLOOM_ERROR_TENSOR);
  const matloom_result result = Run(op);
  if (result == MATLOOM_OK) return kTfLiteOk;
  matloom_fault_record fault = {};
  if (matloom_fault(shared.engine, &fault) == MATLOOM_OK && fault.cause != 0) {
    MicroPrintf("MATLOOM: %s, instruction %u", matloom_fault_text(fault.cause),
                static_cast<unsigned>(fault.index));
  }
  (void)matloom_reset(shared.engine);
  shared.attached = nullptr;
  return Fail("a run", result);
}

/* `MicroInterpreter::Reset`: variables begin again with the next call. */
void Reset(TfLiteContext*, void* buffer) {
  if (shared.attached == buffer) shared.attached = nullptr;
}

}  // namespace

void UseEngine(matloom_engine* engine, const matloom_memory& memory) {
  shared = {engine, memory, nullptr, 0, false};
}

const TFLMRegistration* Register_MATLOOM() {
  static const TFLMRegistration registration =
      tflite::micro::RegisterOp(Init, Prepare, Invoke, nullptr, Reset);
  return &registration;
}

}  // namespace matloom
