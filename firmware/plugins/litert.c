/* An external delegate of LiteRT (TensorFlow Lite): parts of a network run on the engine.
 *
 * Options: `bundle`, a file that `matloom plugin` wrote; `device`, as device.h has it; `fallback`, 1
 * (the default) to leave a model to the runtime's kernels if its parts are not those of the
 * bundle, or 0 for an error. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "litert_api.h"

#define EXPORTED __attribute__((visibility("default")))

/* A delegate, and what the runtime's kernels of it share. */
struct delegate {
  struct litert_delegate base;
  struct plugin_bundle bundle;
  uint32_t claimed; /* parts that the runtime gave to the engine */
  bool fallback;
};

/* One kernel: a part, or NULL if the runtime made another partition of its nodes. */
struct kernel {
  struct delegate* owner;
  const struct plugin_part* part;
};

/* ---- What a part of the loaded model is ---- */

static uint32_t add_word(uint32_t sum, uint32_t value) {
  const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                            (uint8_t)(value >> 24)};
  return matloom_checksum(sum, bytes, sizeof bytes);
}

static uint32_t add_ints(uint32_t sum, const struct litert_ints* list) {
  const int size = list == NULL ? 0 : list->size;
  sum = add_word(sum, (uint32_t)size);
  for (int i = 0; i < size; ++i) sum = add_word(sum, (uint32_t)list->data[i]);
  return sum;
}

/* How many words of its parameters say how an operator computes: the runtime's structures begin with
 * them. Of other operators shapes and constants say all that the engine's part of them depends on. */
static uint32_t parameter_words(int32_t builtin_code) {
  switch (builtin_code) {
    case 0:  /* ADD: activation */
    case 9:  /* FULLY_CONNECTED: activation */
    case 18: /* MUL */
    case 41: /* SUB */
    case 98: /* LEAKY_RELU: alpha */
      return 1;
    case 2: /* CONCATENATION: axis, activation */
      return 2;
    case 67: /* TRANSPOSE_CONV: padding, strides */
      return 3;
    case 45: /* STRIDED_SLICE: five masks */
      return 5;
    case 1:  /* AVERAGE_POOL_2D: padding, strides, window, activation */
    case 17: /* MAX_POOL_2D */
    case 3:  /* CONV_2D: padding, strides, activation, dilations */
      return 6;
    case 4: /* DEPTHWISE_CONV_2D: padding, strides, multiplier, activation, dilations */
      return 7;
    default:
      return 0;
  }
}

static uint32_t add_parameters(uint32_t sum, const struct litert_node* node, int32_t code) {
  const uint32_t count = node->builtin_data == NULL ? 0 : parameter_words(code);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t value = 0;
    memcpy(&value, (const uint8_t*)node->builtin_data + 4 * (size_t)i, sizeof value);
    sum = add_word(sum, value);
  }
  return sum;
}

static uint32_t add_quantization(uint32_t sum, const struct litert_tensor* tensor) {
  const struct litert_affine* affine =
      tensor->quantization.type == 1 ? tensor->quantization.affine : NULL;
  if (affine == NULL || affine->scale == NULL || affine->zero_point == NULL) {
    return add_word(sum, 0);
  }
  sum = add_word(sum, (uint32_t)affine->scale->size);
  for (int i = 0; i < affine->scale->size; ++i) {
    uint32_t bits = 0;
    memcpy(&bits, &affine->scale->data[i], sizeof bits);
    sum = add_word(sum, bits);
  }
  return add_word(sum, affine->zero_point->size > 0 ? (uint32_t)affine->zero_point->data[0] : 0);
}

static uint32_t add_tensor(uint32_t sum, const struct litert_tensor* tensor) {
  const bool constant = tensor->allocation == LITERT_CONSTANT && tensor->data != NULL;
  sum = add_word(sum, (uint32_t)tensor->type);
  sum = add_ints(sum, tensor->dims);
  sum = add_quantization(sum, tensor);
  sum = add_word(sum, constant ? (uint32_t)tensor->bytes : 0);
  return constant ? matloom_checksum(sum, tensor->data, tensor->bytes) : sum;
}

static bool add_tensors(uint32_t* sum, struct litert_context* context,
                        const struct litert_ints* list) {
  *sum = add_ints(*sum, list);
  for (int i = 0; i < list->size; ++i) {
    const int number = list->data[i];
    if (number == -1) continue; /* an optional input that is absent */
    if (number < 0 || (size_t)number >= context->tensor_count) return false;
    *sum = add_tensor(*sum, &context->tensors[number]);
  }
  return true;
}

/* Whether the nodes of a part are in the model, no other delegate's, and those of the bundle. */
static bool is_same(struct litert_context* context, const struct plugin_part* part) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < part->node_count; ++i) {
    struct litert_node* node = NULL;
    struct litert_registration* kind = NULL;
    const int number = (int)plugin_node(part, i);
    if (context->node(context, number, &node, &kind) != LITERT_OK || node->delegate != NULL) {
      return false;
    }
    sum = add_word(sum, (uint32_t)number);
    sum = add_word(sum, (uint32_t)kind->builtin_code);
    sum = add_parameters(sum, node, kind->builtin_code);
    if (!add_tensors(&sum, context, node->inputs) || !add_tensors(&sum, context, node->outputs)) {
      return false;
    }
  }
  return sum == part->checksum;
}

/* ---- Kernels ---- */

/* The part whose nodes are those of a partition. */
static const struct plugin_part* part_of(const struct plugin_bundle* bundle,
                                         const struct litert_ints* nodes) {
  for (uint32_t i = 0; i < bundle->part_count; ++i) {
    const struct plugin_part* part = &bundle->parts[i];
    if (nodes->size != (int)part->node_count) continue;
    uint32_t same = 0;
    while (same < part->node_count && (int)plugin_node(part, same) == nodes->data[same]) ++same;
    if (same == part->node_count) return part;
  }
  return NULL;
}

static void* init(struct litert_context* context, const char* buffer, size_t length) {
  const struct litert_partition* partition = (const void*)buffer;
  struct kernel* kernel = calloc(1, sizeof *kernel);
  (void)context, (void)length;
  if (kernel == NULL) return NULL;
  kernel->owner = partition->delegate->data;
  kernel->part = part_of(&kernel->owner->bundle, partition->nodes);
  return kernel;
}

static void release(struct litert_context* context, void* data) {
  (void)context;
  free(data);
}

static bool give(struct litert_context* context, struct plugin_bundle* bundle,
                 const struct plugin_pairs* pairs) {
  for (uint32_t i = 0; i < pairs->count; ++i) {
    const uint32_t number = plugin_tensor(pairs, i);
    if (number >= context->tensor_count) return false;
    const struct litert_tensor* tensor = &context->tensors[number];
    if (!plugin_give(bundle, pairs, i, tensor->data, tensor->bytes)) return false;
  }
  return true;
}

static int prepare_kernel(struct litert_context* context, struct litert_node* node) {
  const struct kernel* kernel = node->user_data;
  if (kernel == NULL || kernel->part == NULL) {
    context->report(context, "matloom: the runtime divided a part of the engine's");
    return LITERT_ERROR;
  }
  return LITERT_OK;
}

static int invoke(struct litert_context* context, struct litert_node* node) {
  const struct kernel* kernel = node->user_data;
  struct plugin_bundle* bundle = &kernel->owner->bundle;
  if (give(context, bundle, &kernel->part->inputs) &&
      give(context, bundle, &kernel->part->outputs) && plugin_run(bundle, kernel->part)) {
    return LITERT_OK;
  }
  context->report(context, "matloom: %s", bundle->sentence);
  return LITERT_ERROR;
}

/* ---- The delegate ---- */

static int claim(struct litert_context* context, struct delegate* delegate,
                 const struct plugin_part* part) {
  const struct litert_registration registration = {.init = init,
                                                   .free = release,
                                                   .prepare = prepare_kernel,
                                                   .invoke = invoke,
                                                   .custom_name = "MatloomEngine",
                                                   .version = 1};
  struct litert_partition* partitions = NULL;
  int count = 0;
  struct litert_ints* nodes = malloc(sizeof *nodes + part->node_count * sizeof nodes->data[0]);
  if (nodes == NULL) return LITERT_ERROR;
  nodes->size = (int)part->node_count;
  for (uint32_t i = 0; i < part->node_count; ++i) nodes->data[i] = (int)plugin_node(part, i);
  int status = context->preview(context, nodes, &partitions, &count);
  /* A part that the runtime would divide stays with the runtime. */
  if (status == LITERT_OK && count == 1) {
    status = context->replace(context, registration, nodes, &delegate->base);
    if (status == LITERT_OK) ++delegate->claimed;
  }
  free(nodes);
  return status;
}

/* Says that the model is not the bundle's; an error if the caller wanted no other kernels. */
static int refuse(struct litert_context* context, struct delegate* delegate) {
  (void)snprintf(delegate->bundle.sentence, PLUGIN_SENTENCE,
                 "the model is not the one that the bundle was made from: the engine runs none of "
                 "it");
  context->report(context, "matloom: %s", delegate->bundle.sentence);
  return delegate->fallback ? LITERT_OK : LITERT_ERROR;
}

static int prepare(struct litert_context* context, struct litert_delegate* base) {
  struct delegate* delegate = base->data;
  const struct plugin_bundle* bundle = &delegate->bundle;
  struct litert_ints* plan = NULL;
  if (delegate->claimed != 0) return LITERT_OK; /* another subgraph: bundles are of the first */
  if (context->plan(context, &plan) != LITERT_OK) return LITERT_ERROR;
  if (plan->size != (int)bundle->model_nodes) return refuse(context, delegate);
  for (uint32_t i = 0; i < bundle->part_count; ++i) {
    if (!is_same(context, &bundle->parts[i])) return refuse(context, delegate);
  }
  for (uint32_t i = 0; i < bundle->part_count; ++i) {
    const int status = claim(context, delegate, &bundle->parts[i]);
    if (status != LITERT_OK) return status;
  }
  return LITERT_OK;
}

/* Options by name; false if one is unknown, with a sentence. */
static bool read_options(char** keys, char** values, size_t count, const char* found[3],
                         char* sentence) {
  static const char* const names[] = {"bundle", "device", "fallback"};
  for (size_t i = 0; i < count; ++i) {
    size_t at = 0;
    while (at < 3 && strcmp(keys[i], names[at]) != 0) ++at;
    if (at == 3) {
      (void)snprintf(sentence, PLUGIN_SENTENCE,
                     "options must be bundle, device and fallback, not %s", keys[i]);
      return false;
    }
    found[at] = values[i];
  }
  if (found[0] == NULL || found[1] == NULL) {
    (void)snprintf(sentence, PLUGIN_SENTENCE, "option %s must be given",
                   found[0] == NULL ? names[0] : names[1]);
    return false;
  }
  return true;
}

EXPORTED void tflite_plugin_destroy_delegate(struct litert_delegate* base) {
  if (base == NULL) return;
  struct delegate* delegate = base->data;
  plugin_bundle_close(&delegate->bundle);
  free(delegate);
}

EXPORTED struct litert_delegate* tflite_plugin_create_delegate(char** keys, char** values,
                                                               size_t count,
                                                               void (*report)(const char*)) {
  const char* options[3] = {NULL, NULL, "1"};
  struct delegate* delegate = calloc(1, sizeof *delegate);
  if (delegate == NULL) return NULL;
  delegate->base.data = delegate;
  delegate->base.prepare = prepare;
  char* sentence = delegate->bundle.sentence;
  if (!read_options(keys, values, count, options, sentence) ||
      !plugin_bundle_open(&delegate->bundle, PLUGIN_LITERT, options[0], options[1])) {
    if (report != NULL) report(sentence);
    tflite_plugin_destroy_delegate(&delegate->base);
    return NULL;
  }
  delegate->fallback = strcmp(options[2], "0") != 0;
  return &delegate->base;
}

/* Cycles of all runs so far, as the engine's counters have them. */
EXPORTED uint64_t matloom_litert_cycles(const struct litert_delegate* base) {
  const struct delegate* delegate = base->data;
  return delegate->bundle.cycles;
}

/* Parts of the network that the engine runs. */
EXPORTED uint32_t matloom_litert_parts(const struct litert_delegate* base) {
  const struct delegate* delegate = base->data;
  return delegate->claimed;
}

/* What went wrong last; empty if nothing did. Lives as long as the delegate. */
EXPORTED const char* matloom_litert_problem(const struct litert_delegate* base) {
  const struct delegate* delegate = base->data;
  return delegate->bundle.sentence;
}
