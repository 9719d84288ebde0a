/* What an external delegate of LiteRT (TensorFlow Lite) needs of the runtime's structures, declared
 * for ourselves: names are ours, members in the order of the runtime's C interface
 * (tflite/core/c/common.h, builtin_op_data.h of LiteRT 2). Members that are only passed over are
 * `const void*`. Under another layout no part's checksum is right, and the runtime keeps the model. */
#ifndef MATLOOM_PLUGIN_LITERT_API_H
#define MATLOOM_PLUGIN_LITERT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum litert_status { LITERT_OK = 0, LITERT_ERROR = 1, LITERT_DELEGATE_ERROR = 2 };

/* How a tensor's memory is had: constants of the model file have the first. */
enum litert_allocation { LITERT_CONSTANT = 1 };

/* TfLiteIntArray, TfLiteFloatArray. */
struct litert_ints {
  int size;
  int data[];
};
struct litert_floats {
  int size;
  float data[];
};

/* TfLiteAffineQuantization. */
struct litert_affine {
  struct litert_floats* scale;
  struct litert_ints* zero_point;
  int32_t axis;
};

struct litert_delegate;
struct litert_context;
struct litert_registration;

/* TfLiteTensor. */
struct litert_tensor {
  int type;
  void* data;
  struct litert_ints* dims;
  struct {
    float scale;
    int32_t zero_point;
  } legacy;
  int allocation;
  size_t bytes;
  const void* mapped;
  const char* name;
  struct litert_delegate* delegate;
  int buffer_handle;
  bool is_stale;
  bool is_variable;
  struct {
    int type; /* 1: `affine` is set */
    struct litert_affine* affine;
  } quantization;
  const void* sparsity;
  const struct litert_ints* dims_signature;
};

/* TfLiteNode. */
struct litert_node {
  struct litert_ints* inputs;
  struct litert_ints* outputs;
  struct litert_ints* intermediates;
  struct litert_ints* temporaries;
  void* user_data;
  void* builtin_data; /* parameters of the operator */
  const void* custom_data;
  int custom_bytes;
  struct litert_delegate* delegate;
  bool has_side_effect;
};

/* TfLiteRegistration; passed by value, so that its size is part of the interface. */
struct litert_registration {
  void* (*init)(struct litert_context* context, const char* buffer, size_t length);
  void (*free)(struct litert_context* context, void* data);
  int (*prepare)(struct litert_context* context, struct litert_node* node);
  int (*invoke)(struct litert_context* context, struct litert_node* node);
  const void* profiling_string;
  int32_t builtin_code;
  const char* custom_name;
  int version;
  const void* external;
  const void* async_kernel;
  uint64_t inplace;
};

/* TfLiteDelegateParams: what `init` is given. */
struct litert_partition {
  struct litert_delegate* delegate;
  struct litert_ints* nodes;
  struct litert_ints* inputs;
  struct litert_ints* outputs;
};

/* TfLiteContext, as far as its last member that is used. */
struct litert_context {
  size_t tensor_count;
  int (*plan)(struct litert_context* context, struct litert_ints** plan);
  struct litert_tensor* tensors;
  void* implementation;
  const void* resize_tensor;
  void (*report)(struct litert_context* context, const char* format, ...);
  const void* add_tensors;
  int (*node)(struct litert_context* context, int number, struct litert_node** node,
              struct litert_registration** registration);
  int (*replace)(struct litert_context* context, struct litert_registration registration,
                 const struct litert_ints* nodes, struct litert_delegate* delegate);
  int threads;
  const void* get_external;
  const void* set_external;
  bool relax;
  const void* profiler;
  const void* persistent_buffer;
  const void* eval_buffer;
  const void* request_scratch;
  const void* get_scratch;
  const void* resize_explicit;
  int (*preview)(struct litert_context* context, const struct litert_ints* nodes,
                 struct litert_partition** partitions, int* count);
};

/* TfLiteDelegate. */
struct litert_delegate {
  void* data;
  int (*prepare)(struct litert_context* context, struct litert_delegate* delegate);
  const void* copy_from_buffer;
  const void* copy_to_buffer;
  const void* free_buffer;
  int64_t flags;
  const void* opaque_builder;
};

#endif
