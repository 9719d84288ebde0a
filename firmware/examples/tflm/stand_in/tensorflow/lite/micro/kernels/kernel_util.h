/* Replaces TensorFlow Lite Micro's header of this name, so that the operator compiles, and is
 * tested, without its sources: the names, types and arguments that the operator uses, and nothing
 * else. A firmware has the real tree on its include path instead of this one. */
#ifndef MATLOOM_STAND_IN_KERNEL_UTIL_H
#define MATLOOM_STAND_IN_KERNEL_UTIL_H

#include <stddef.h>
#include <stdint.h>

enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 };

enum TfLiteType {
  kTfLiteNoType = 0,
  kTfLiteFloat32 = 1,
  kTfLiteInt32 = 2,
  kTfLiteUInt8 = 3,
  kTfLiteInt64 = 4,
  kTfLiteBool = 6,
  kTfLiteInt16 = 7,
  kTfLiteInt8 = 9
};

/* The real one ends with as many numbers as `size` says. */
struct TfLiteIntArray {
  int size;
  int data[8];
};

union TfLitePtrUnion {
  void* data;
  char* raw;
};

struct TfLiteEvalTensor {
  TfLitePtrUnion data;
  TfLiteIntArray* dims;
  TfLiteType type;
};

struct TfLiteContext {
  void* (*AllocatePersistentBuffer)(TfLiteContext* context, size_t bytes);
  TfLiteEvalTensor* (*GetEvalTensor)(const TfLiteContext* context, int tensor);
};

struct TfLiteNode {
  TfLiteIntArray* inputs;
  TfLiteIntArray* outputs;
  void* user_data;
};

struct TFLMRegistration {
  void* (*init)(TfLiteContext* context, const char* buffer, size_t length);
  void (*free)(TfLiteContext* context, void* buffer);
  TfLiteStatus (*prepare)(TfLiteContext* context, TfLiteNode* node);
  TfLiteStatus (*invoke)(TfLiteContext* context, TfLiteNode* node);
  void (*reset)(TfLiteContext* context, void* buffer);
  int32_t builtin_code;
  const char* custom_name;
};

namespace tflite {
namespace micro {

inline TFLMRegistration RegisterOp(
    void* (*init)(TfLiteContext* context, const char* buffer, size_t length),
    TfLiteStatus (*prepare)(TfLiteContext* context, TfLiteNode* node),
    TfLiteStatus (*invoke)(TfLiteContext* context, TfLiteNode* node),
    void (*free)(TfLiteContext* context, void* buffer) = nullptr,
    void (*reset)(TfLiteContext* context, void* buffer) = nullptr) {
  return {init, free, prepare, invoke, reset, 0, nullptr};
}

inline const TfLiteEvalTensor* GetEvalInput(const TfLiteContext* context, const TfLiteNode* node,
                                            int index) {
  return context->GetEvalTensor(context, node->inputs->data[index]);
}

inline TfLiteEvalTensor* GetEvalOutput(const TfLiteContext* context, const TfLiteNode* node,
                                       int index) {
  return context->GetEvalTensor(context, node->outputs->data[index]);
}

}  // namespace micro
}  // namespace tflite

#endif
