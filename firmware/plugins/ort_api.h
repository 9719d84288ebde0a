/* What a plug-in execution provider needs of ONNX Runtime's C interface, declared for ourselves: names
 * are ours, places and members in the order of the runtime's headers (onnxruntime_c_api.h,
 * onnxruntime_ep_c_api.h). Tables of functions only grow, so that places of version 23 are those of
 * every later version; the runtime gives no table of version 23 if it is older. */
#ifndef MATLOOM_PLUGIN_ORT_API_H
#define MATLOOM_PLUGIN_ORT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of the interface that is declared here. */
#define ORT_VERSION 23u

typedef void (*ort_function)(void);
struct ort_status;

/* Functions by their place in OrtApi; those without a comment return an OrtStatus. */
enum ort_place {
  ORT_CREATE_STATUS = 0,
  ORT_TENSOR_MUTABLE_DATA = 51,
  ORT_ELEMENT_TYPE = 60,
  ORT_DIMENSIONS_COUNT = 61,
  ORT_DIMENSIONS = 62,
  ORT_TYPE_AND_SHAPE = 65,
  ORT_CONTEXT_INPUT = 90,
  ORT_CONTEXT_OUTPUT = 91,
  ORT_RELEASE_STATUS = 93,         /* nothing */
  ORT_RELEASE_TYPE_AND_SHAPE = 99, /* nothing */
  ORT_HAS_CONFIG_ENTRY = 237,
  ORT_CONFIG_ENTRY = 238,
  ORT_LOG = 247,
  ORT_READ_ATTRIBUTE = 272,
  ORT_VALUE_NAME = 289,
  ORT_HARDWARE_TYPE = 307, /* the type, 0 for a processor */
  ORT_EP_API = 317,        /* the table of functions for providers */
  ORT_TENSOR_BYTES = 318,
  ORT_VALUE_INITIALIZER = 326,
  ORT_VALUE_IS_CONSTANT = 331,
  ORT_GRAPH_NODE_COUNT = 344,
  ORT_GRAPH_NODES = 345,
  ORT_NODE_OPERATOR = 350,
  ORT_NODE_INPUT_COUNT = 353,
  ORT_NODE_INPUTS = 354,
  ORT_NODE_OUTPUT_COUNT = 355,
  ORT_NODE_OUTPUTS = 356,
  ORT_NODE_ATTRIBUTE_COUNT = 359,
  ORT_NODE_ATTRIBUTES = 360,
  ORT_ATTRIBUTE_TYPE = 363,
  ORT_ATTRIBUTE_NAME = 364,
  ORT_TENSOR_DATA = 378
};

/* Functions by their place in OrtEpApi. */
enum ort_ep_place { ORT_CREATE_DEVICE = 0, ORT_FUSE = 2 };

enum { ORT_FAIL = 1, ORT_WARNING = 2 };
enum ort_attribute { ORT_INT = 1, ORT_INTS, ORT_FLOAT, ORT_FLOATS, ORT_STRING, ORT_STRINGS };

/* OrtApiBase. */
struct ort_base {
  const ort_function* (*api)(uint32_t version);
  const char* (*version)(void);
};

/* OrtNodeFusionOptions. */
struct ort_fusion {
  uint32_t version;
  bool drop_constants;
};

/* OrtNodeComputeInfo. */
struct ort_compute {
  uint32_t version;
  struct ort_status* (*create_state)(struct ort_compute* compute, void* context, void** state);
  struct ort_status* (*run)(struct ort_compute* compute, void* state, void* context);
  void (*release_state)(struct ort_compute* compute, void* state);
};

/* OrtEp, as far as version 23 has it; what is NULL is left to the runtime. */
struct ort_ep {
  uint32_t version;
  const char* (*name)(const struct ort_ep* ep);
  struct ort_status* (*capability)(struct ort_ep* ep, const void* graph, void* support);
  struct ort_status* (*compile)(struct ort_ep* ep, const void** graphs, const void** fused,
                                size_t count, struct ort_compute** computes, void** context_nodes);
  void (*release_computes)(struct ort_ep* ep, struct ort_compute** computes, size_t count);
  ort_function left_out[8];
};

/* OrtEpFactory, as far as version 23 has it. */
struct ort_factory {
  uint32_t version;
  const char* (*name)(const struct ort_factory* factory);
  const char* (*vendor)(const struct ort_factory* factory);
  struct ort_status* (*devices)(struct ort_factory* factory, const void* const* hardware,
                                size_t count, void** devices, size_t most, size_t* found);
  struct ort_status* (*create)(struct ort_factory* factory, const void* const* hardware,
                               const void* const* metadata, size_t count, const void* options,
                               const void* logger, struct ort_ep** ep);
  void (*release)(struct ort_factory* factory, struct ort_ep* ep);
  uint32_t (*vendor_id)(const struct ort_factory* factory);
  const char* (*version_text)(const struct ort_factory* factory);
  ort_function validate;
  struct ort_status* (*create_allocator)(struct ort_factory* factory, const void* info,
                                         const void* options, void** allocator);
  void (*release_allocator)(struct ort_factory* factory, void* allocator);
  struct ort_status* (*create_transfer)(struct ort_factory* factory, void** transfer);
  bool (*is_stream_aware)(const struct ort_factory* factory);
  ort_function create_stream;
};

/* A call of a function of a table that returns a status. */
#define ORT_CALL(api, place, types, ...) \
  (((struct ort_status * (*) types)(api)[place])(__VA_ARGS__))

#endif
