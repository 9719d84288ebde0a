/* A plug-in execution provider of ONNX Runtime: parts of a network run on the engine.
 *
 * Options: `bundle`, a file that `matloom plugin` wrote; `device`, as device.h has it. If the
 * model's parts are not those of the bundle, the runtime's log says so and its kernels run them. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "ort_api.h"

#define EXPORTED __attribute__((visibility("default")))
#define NAME "MatloomExecutionProvider"
#define PREFIX "ep.matloomexecutionprovider."
#define PATH_BYTES 1024
#define AXES 16

typedef const ort_function* table;

struct factory {
  struct ort_factory base;
  table api;
  table ep_api;
};

struct provider {
  struct ort_ep base;
  table api;
  table ep_api;
  const void* logger;
  pthread_mutex_t engine; /* runs of several threads take turns */
  struct plugin_bundle bundle;
};

/* A part, and where its tensors are among the inputs and outputs of the node that replaces it. */
struct compute {
  struct ort_compute base;
  struct provider* owner;
  const struct plugin_part* part;
  size_t* inputs;
  size_t* outputs;
};

static atomic_uint_fast64_t cycles_of_all;
static atomic_uint_fast32_t parts_of_all;

static struct ort_status* fail(table api, const char* sentence) {
  return ((struct ort_status * (*)(int, const char*)) api[ORT_CREATE_STATUS])(ORT_FAIL, sentence);
}

/* Whether a call succeeded; its status is dropped. */
static bool done(table api, struct ort_status* status) {
  if (status != NULL) ((void (*)(struct ort_status*))api[ORT_RELEASE_STATUS])(status);
  return status == NULL;
}

/* ---- What a part of the loaded model is ---- */

static uint32_t add_word(uint32_t sum, uint32_t value) {
  const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                            (uint8_t)(value >> 24)};
  return matloom_checksum(sum, bytes, sizeof bytes);
}

/* A text with its zero byte. */
static uint32_t add_text(uint32_t sum, const char* text) {
  return matloom_checksum(sum, text, strlen(text) + 1);
}

/* Values of a node on one side; NULL if they are unavailable. To be freed. */
static const void** values_of(table api, const void* node, bool output, size_t* count) {
  const int counted = output ? ORT_NODE_OUTPUT_COUNT : ORT_NODE_INPUT_COUNT;
  const int listed = output ? ORT_NODE_OUTPUTS : ORT_NODE_INPUTS;
  if (!done(api, ORT_CALL(api, counted, (const void*, size_t*), node, count))) return NULL;
  const void** values = calloc(*count + 1, sizeof *values);
  if (values != NULL &&
      !done(api, ORT_CALL(api, listed, (const void*, const void**, size_t), node, values, *count))) {
    free(values);
    return NULL;
  }
  return values;
}

/* The name of a value; empty if an optional one is absent. */
static const char* name_of(table api, const void* value) {
  const char* name = NULL;
  if (value == NULL ||
      !done(api, ORT_CALL(api, ORT_VALUE_NAME, (const void*, const char**), value, &name))) {
    return "";
  }
  return name == NULL ? "" : name;
}

/* Adds type, shape and bytes of a constant. */
static bool add_constant(table api, uint32_t* sum, const void* value) {
  const void* tensor = NULL;
  const void* data = NULL;
  void* info = NULL;
  int type = 0;
  size_t axes = 0, bytes = 0;
  int64_t shape[AXES];
  if (!done(api, ORT_CALL(api, ORT_VALUE_INITIALIZER, (const void*, const void**), value, &tensor)) ||
      !done(api, ORT_CALL(api, ORT_TYPE_AND_SHAPE, (const void*, void**), tensor, &info))) {
    return false;
  }
  const bool known =
      done(api, ORT_CALL(api, ORT_ELEMENT_TYPE, (const void*, int*), info, &type)) &&
      done(api, ORT_CALL(api, ORT_DIMENSIONS_COUNT, (const void*, size_t*), info, &axes)) &&
      axes <= AXES &&
      done(api, ORT_CALL(api, ORT_DIMENSIONS, (const void*, int64_t*, size_t), info, shape, axes)) &&
      done(api, ORT_CALL(api, ORT_TENSOR_BYTES, (const void*, size_t*), tensor, &bytes)) &&
      done(api, ORT_CALL(api, ORT_TENSOR_DATA, (const void*, const void**), tensor, &data));
  ((void (*)(void*))api[ORT_RELEASE_TYPE_AND_SHAPE])(info);
  if (!known) return false;
  *sum = add_word(add_word(*sum, (uint32_t)type), (uint32_t)axes);
  for (size_t i = 0; i < axes; ++i) *sum = add_word(*sum, (uint32_t)shape[i]);
  *sum = matloom_checksum(add_word(*sum, (uint32_t)bytes), data, bytes);
  return true;
}

static bool add_values(table api, uint32_t* sum, const void* node, bool output) {
  size_t count = 0;
  bool known = true;
  const void** values = values_of(api, node, output, &count);
  if (values == NULL) return false;
  *sum = add_word(*sum, (uint32_t)count);
  for (size_t i = 0; i < count && known; ++i) {
    bool constant = false;
    const char* name = name_of(api, values[i]);
    known = name[0] == '\0' || output ||
            done(api, ORT_CALL(api, ORT_VALUE_IS_CONSTANT, (const void*, bool*), values[i],
                               &constant));
    /* The runtime gives equal constants one name. */
    *sum = add_text(*sum, constant ? "" : name);
    if (known && constant) known = add_constant(api, sum, values[i]);
  }
  free(values);
  return known;
}

/* The checksum of an attribute of integers; 0 of one that says nothing: the runtime adds attributes
 * with their defaults, which are 0, or 1 for a group. */
static uint32_t integers(table api, const void* attribute, int type, const char* name) {
  int64_t values[64];
  size_t bytes = 0;
  if (!done(api, ORT_CALL(api, ORT_READ_ATTRIBUTE, (const void*, int, void*, size_t, size_t*),
                          attribute, type, values, sizeof values, &bytes))) {
    return 0;
  }
  const int64_t none = strcmp(name, "group") == 0 ? 1 : 0;
  if (type == ORT_INT && values[0] == none) return 0;
  uint32_t sum = add_text(0, name);
  for (size_t i = 0; i < bytes / sizeof values[0]; ++i) sum = add_word(sum, (uint32_t)values[i]);
  return sum;
}

/* The checksum of a text of at most 63 bytes; 0 of NOTSET, the default of auto_pad. */
static uint32_t characters(table api, const void* attribute, const char* name) {
  char text[64] = "";
  size_t bytes = 0;
  if (!done(api, ORT_CALL(api, ORT_READ_ATTRIBUTE, (const void*, int, void*, size_t, size_t*),
                          attribute, ORT_STRING, text, sizeof text - 1, &bytes))) {
    return 0;
  }
  text[sizeof text - 1] = '\0';
  return strcmp(text, "NOTSET") == 0 || text[0] == '\0' ? 0 : add_text(add_text(0, name), text);
}

/* The sum of the attributes' checksums, which have no order. */
static bool add_attributes(table api, uint32_t* sum, const void* node) {
  size_t count = 0;
  uint32_t total = 0;
  if (!done(api, ORT_CALL(api, ORT_NODE_ATTRIBUTE_COUNT, (const void*, size_t*), node, &count))) {
    return false;
  }
  const void** list = calloc(count + 1, sizeof *list);
  if (list == NULL || !done(api, ORT_CALL(api, ORT_NODE_ATTRIBUTES,
                                          (const void*, const void**, size_t), node, list, count))) {
    free(list);
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    int type = 0;
    const char* name = "";
    if (!done(api, ORT_CALL(api, ORT_ATTRIBUTE_TYPE, (const void*, int*), list[i], &type)) ||
        !done(api, ORT_CALL(api, ORT_ATTRIBUTE_NAME, (const void*, const char**), list[i], &name))) {
      continue;
    }
    if (type == ORT_INT || type == ORT_INTS) total += integers(api, list[i], type, name);
    if (type == ORT_STRING) total += characters(api, list[i], name);
  }
  free(list);
  *sum = add_word(*sum, total);
  return true;
}

static bool add_node(table api, uint32_t* sum, const void* node) {
  const char* kind = NULL;
  if (!done(api, ORT_CALL(api, ORT_NODE_OPERATOR, (const void*, const char**), node, &kind))) {
    return false;
  }
  *sum = add_text(*sum, kind);
  return add_attributes(api, sum, node) && add_values(api, sum, node, false) &&
         add_values(api, sum, node, true);
}

/* ---- Parts of a graph ---- */

/* Nodes of a graph; NULL if they are unavailable. To be freed. */
static const void** nodes_of(table api, const void* graph, size_t* count) {
  if (!done(api, ORT_CALL(api, ORT_GRAPH_NODE_COUNT, (const void*, size_t*), graph, count))) {
    return NULL;
  }
  const void** nodes = calloc(*count + 1, sizeof *nodes);
  if (nodes != NULL && !done(api, ORT_CALL(api, ORT_GRAPH_NODES, (const void*, const void**, size_t),
                                           graph, nodes, *count))) {
    free(nodes);
    return NULL;
  }
  return nodes;
}

/* The node whose first output has a name; NULL if there is none. */
static const void* made_by(table api, const void** nodes, size_t count, const char* name) {
  for (size_t i = 0; i < count; ++i) {
    size_t outputs = 0;
    const void** values = values_of(api, nodes[i], true, &outputs);
    const bool same = values != NULL && outputs > 0 && strcmp(name_of(api, values[0]), name) == 0;
    free(values);
    if (same) return nodes[i];
  }
  return NULL;
}

/* Finds the nodes of a part, which must be those of the bundle. */
static bool find_part(struct provider* provider, const struct plugin_part* part,
                      const void** nodes, size_t count, const void** found) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < part->node_count; ++i) {
    const char* name = plugin_text(&provider->bundle, plugin_node(part, i));
    found[i] = made_by(provider->api, nodes, count, name);
    if (found[i] == NULL || !add_node(provider->api, &sum, found[i])) return false;
  }
  return sum == part->checksum;
}

static void warn(struct provider* provider, const char* sentence) {
  (void)done(provider->api,
             ORT_CALL(provider->api, ORT_LOG,
                      (const void*, int, const char*, const char*, int, const char*),
                      provider->logger, ORT_WARNING, sentence, "ort.c", 0, "matloom"));
}

static struct ort_status* claim(struct provider* provider, const struct plugin_part* part,
                                const void** nodes, size_t count, void* support, bool* claimed) {
  const struct ort_fusion fusion = {ORT_VERSION, true};
  struct ort_status* status = NULL;
  const void** found = calloc((size_t)part->node_count + 1, sizeof *found);
  if (found == NULL) return fail(provider->api, "matloom: no memory");
  *claimed = find_part(provider, part, nodes, count, found);
  if (*claimed) {
    status = ORT_CALL(provider->ep_api, ORT_FUSE,
                      (void*, const void* const*, size_t, const struct ort_fusion*), support, found,
                      (size_t)part->node_count, &fusion);
  }
  free(found);
  return status;
}

static struct ort_status* capability(struct ort_ep* base, const void* graph, void* support) {
  struct provider* provider = (struct provider*)base;
  struct ort_status* status = NULL;
  size_t count = 0;
  const void** nodes = nodes_of(provider->api, graph, &count);
  if (nodes == NULL) return fail(provider->api, "matloom: the graph has no nodes");
  bool found = false;
  for (uint32_t i = 0; i < provider->bundle.part_count && status == NULL; ++i) {
    const struct plugin_part* part = &provider->bundle.parts[i];
    if (!found) status = claim(provider, part, nodes, count, support, &found);
    /* The parts of a step follow one another. */
    const bool last = i + 1 == provider->bundle.part_count || part[1].step != part->step;
    if (last && !found) {
      warn(provider, "matloom: a part of the model is not that of the bundle: "
                     "the engine does not run it");
    }
    if (last) found = false;
  }
  free(nodes);
  return status;
}

/* ---- Compiled parts ---- */

static struct ort_status* create_state(struct ort_compute* base, void* context, void** state) {
  (void)context;
  *state = base;
  return NULL;
}

static void release_state(struct ort_compute* base, void* state) { (void)base, (void)state; }

/* Gives an input's memory to the bundle; its shape must be the program's. */
static bool give_input(struct compute* compute, uint32_t place, void* context) {
  struct provider* provider = compute->owner;
  table api = provider->api;
  const void* tensor = NULL;
  const void* data = NULL;
  size_t bytes = 0;
  if (!done(api, ORT_CALL(api, ORT_CONTEXT_INPUT, (const void*, size_t, const void**), context,
                          compute->inputs[place], &tensor)) ||
      !done(api, ORT_CALL(api, ORT_TENSOR_BYTES, (const void*, size_t*), tensor, &bytes)) ||
      !done(api, ORT_CALL(api, ORT_TENSOR_DATA, (const void*, const void**), tensor, &data))) {
    return false;
  }
  /* The driver reads inputs only. */
  return plugin_give(&provider->bundle, &compute->part->inputs, place, (void*)(uintptr_t)data,
                     bytes);
}

static bool give_output(struct compute* compute, uint32_t place, void* context) {
  struct provider* provider = compute->owner;
  table api = provider->api;
  int64_t shape[AXES];
  void* tensor = NULL;
  void* data = NULL;
  size_t bytes = 0;
  const uint32_t axes = plugin_shape(&provider->bundle, &compute->part->outputs, place, shape);
  return done(api, ORT_CALL(api, ORT_CONTEXT_OUTPUT,
                            (void*, size_t, const int64_t*, size_t, void**), context,
                            compute->outputs[place], shape, (size_t)axes, &tensor)) &&
         done(api, ORT_CALL(api, ORT_TENSOR_BYTES, (const void*, size_t*), tensor, &bytes)) &&
         done(api, ORT_CALL(api, ORT_TENSOR_MUTABLE_DATA, (void*, void**), tensor, &data)) &&
         plugin_give(&provider->bundle, &compute->part->outputs, place, data, bytes);
}

static bool run_part(struct compute* compute, void* context) {
  struct plugin_bundle* bundle = &compute->owner->bundle;
  const struct plugin_part* part = compute->part;
  const uint64_t before = bundle->cycles;
  for (uint32_t i = 0; i < part->inputs.count; ++i) {
    if (!give_input(compute, i, context)) return false;
  }
  for (uint32_t i = 0; i < part->outputs.count; ++i) {
    if (!give_output(compute, i, context)) return false;
  }
  const bool ran = plugin_run(bundle, part);
  atomic_fetch_add(&cycles_of_all, bundle->cycles - before);
  return ran;
}

static struct ort_status* run(struct ort_compute* base, void* state, void* context) {
  struct compute* compute = state;
  struct provider* provider = compute->owner;
  struct ort_status* status = NULL;
  (void)base;
  (void)pthread_mutex_lock(&provider->engine);
  if (!run_part(compute, context)) {
    char sentence[PLUGIN_SENTENCE + 16];
    (void)snprintf(sentence, sizeof sentence, "matloom: %s", provider->bundle.sentence);
    status = fail(provider->api, sentence);
  }
  (void)pthread_mutex_unlock(&provider->engine);
  return status;
}

/* Finds each tensor of a part by name among the values of a node; false if one is absent. */
static bool place_all(struct provider* provider, const struct plugin_pairs* pairs,
                      const void* node, bool output, size_t* places) {
  size_t count = 0, found = 0;
  const void** values = values_of(provider->api, node, output, &count);
  if (values == NULL || places == NULL) {
    free(values);
    return false;
  }
  for (uint32_t i = 0; i < pairs->count; ++i) {
    const char* name = plugin_text(&provider->bundle, plugin_tensor(pairs, i));
    size_t at = 0;
    while (at < count && strcmp(name_of(provider->api, values[at]), name) != 0) ++at;
    places[i] = at;
    if (at < count) ++found;
  }
  free(values);
  return found == pairs->count;
}

static void free_compute(struct compute* compute) {
  if (compute == NULL) return;
  free(compute->inputs);
  free(compute->outputs);
  free(compute);
}

/* What runs a fused node: the part whose tensors it has; NULL if there is none. */
static struct compute* compiled(struct provider* provider, const void* fused) {
  for (uint32_t i = 0; i < provider->bundle.part_count; ++i) {
    const struct plugin_part* part = &provider->bundle.parts[i];
    struct compute* compute = calloc(1, sizeof *compute);
    if (compute == NULL) return NULL;
    const struct ort_compute base = {ORT_VERSION, create_state, run, release_state};
    compute->base = base;
    compute->owner = provider;
    compute->part = part;
    compute->inputs = calloc((size_t)part->inputs.count + 1, sizeof *compute->inputs);
    compute->outputs = calloc((size_t)part->outputs.count + 1, sizeof *compute->outputs);
    if (place_all(provider, &part->outputs, fused, true, compute->outputs) &&
        place_all(provider, &part->inputs, fused, false, compute->inputs)) {
      return compute;
    }
    free_compute(compute);
  }
  return NULL;
}

static void release_computes(struct ort_ep* base, struct ort_compute** computes, size_t count) {
  (void)base;
  for (size_t i = 0; i < count; ++i) free_compute((struct compute*)computes[i]);
}

static struct ort_status* compile(struct ort_ep* base, const void** graphs, const void** fused,
                                  size_t count, struct ort_compute** computes,
                                  void** context_nodes) {
  struct provider* provider = (struct provider*)base;
  (void)graphs, (void)context_nodes;
  for (size_t i = 0; i < count; ++i) {
    struct compute* compute = compiled(provider, fused[i]);
    if (compute == NULL) {
      release_computes(base, computes, i);
      return fail(provider->api, "matloom: the runtime divided a part of the engine's");
    }
    computes[i] = &compute->base;
    atomic_fetch_add(&parts_of_all, 1);
  }
  return NULL;
}

/* ---- Providers and their factory ---- */

static const char* provider_name(const struct ort_ep* base) {
  (void)base;
  return NAME;
}

/* An option of a session; empty if it was not given. */
static void option(table api, const void* options, const char* key, char value[PATH_BYTES]) {
  size_t bytes = PATH_BYTES;
  int given = 0;
  value[0] = '\0';
  if (!done(api, ORT_CALL(api, ORT_HAS_CONFIG_ENTRY, (const void*, const char*, int*), options, key,
                          &given)) ||
      given == 0) {
    return;
  }
  if (!done(api, ORT_CALL(api, ORT_CONFIG_ENTRY, (const void*, const char*, char*, size_t*),
                          options, key, value, &bytes))) {
    value[0] = '\0';
  }
}

static void release(struct ort_factory* base, struct ort_ep* ep) {
  struct provider* provider = (struct provider*)ep;
  (void)base;
  if (provider == NULL) return;
  plugin_bundle_close(&provider->bundle);
  (void)pthread_mutex_destroy(&provider->engine);
  free(provider);
}

static struct ort_status* create(struct ort_factory* base, const void* const* hardware,
                                 const void* const* metadata, size_t count, const void* options,
                                 const void* logger, struct ort_ep** ep) {
  const struct factory* factory = (const struct factory*)base;
  const struct ort_ep functions = {.version = ORT_VERSION,
                                   .name = provider_name,
                                   .capability = capability,
                                   .compile = compile,
                                   .release_computes = release_computes};
  char path[PATH_BYTES], device[PATH_BYTES], sentence[PLUGIN_SENTENCE + 16];
  (void)hardware, (void)metadata, (void)count;
  *ep = NULL;
  option(factory->api, options, PREFIX "bundle", path);
  option(factory->api, options, PREFIX "device", device);
  if (path[0] == '\0' || device[0] == '\0') {
    return fail(factory->api, "matloom: options bundle and device must be given");
  }
  struct provider* provider = calloc(1, sizeof *provider);
  if (provider == NULL) return fail(factory->api, "matloom: no memory");
  provider->base = functions;
  provider->api = factory->api;
  provider->ep_api = factory->ep_api;
  provider->logger = logger;
  (void)pthread_mutex_init(&provider->engine, NULL);
  if (!plugin_bundle_open(&provider->bundle, PLUGIN_ONNXRUNTIME, path, device)) {
    (void)snprintf(sentence, sizeof sentence, "matloom: %s", provider->bundle.sentence);
    release(base, &provider->base);
    return fail(factory->api, sentence);
  }
  *ep = &provider->base;
  return NULL;
}

/* The engine has no device that the runtime knows of: the processor represents it. */
static struct ort_status* devices(struct ort_factory* base, const void* const* hardware,
                                  size_t count, void** found, size_t most, size_t* number) {
  const struct factory* factory = (const struct factory*)base;
  *number = 0;
  for (size_t i = 0; i < count && *number < most; ++i) {
    if (((int (*)(const void*))factory->api[ORT_HARDWARE_TYPE])(hardware[i]) != 0) continue;
    return ORT_CALL(factory->ep_api, ORT_CREATE_DEVICE,
                    (void*, const void*, const void*, const void*, void**), base, hardware[i], NULL,
                    NULL, &found[(*number)++]);
  }
  return NULL;
}

static const char* factory_name(const struct ort_factory* base) {
  (void)base;
  return NAME;
}

static const char* vendor(const struct ort_factory* base) {
  (void)base;
  return "Matloom";
}

static uint32_t vendor_id(const struct ort_factory* base) {
  (void)base;
  return 0;
}

static const char* version_text(const struct ort_factory* base) {
  (void)base;
  return "1.0.0";
}

static struct ort_status* create_allocator(struct ort_factory* base, const void* info,
                                           const void* options, void** allocator) {
  (void)base, (void)info, (void)options;
  *allocator = NULL; /* the runtime's */
  return NULL;
}

static void release_allocator(struct ort_factory* base, void* allocator) {
  (void)base, (void)allocator;
}

static struct ort_status* create_transfer(struct ort_factory* base, void** transfer) {
  (void)base;
  *transfer = NULL; /* tensors are in the processor's memory */
  return NULL;
}

static bool is_stream_aware(const struct ort_factory* base) {
  (void)base;
  return false;
}

EXPORTED struct ort_status* CreateEpFactories(const char* name, const struct ort_base* runtime,
                                              const void* logger, struct ort_factory** factories,
                                              size_t most, size_t* count) {
  static const struct ort_factory functions = {.version = ORT_VERSION,
                                               .name = factory_name,
                                               .vendor = vendor,
                                               .devices = devices,
                                               .create = create,
                                               .release = release,
                                               .vendor_id = vendor_id,
                                               .version_text = version_text,
                                               .create_allocator = create_allocator,
                                               .release_allocator = release_allocator,
                                               .create_transfer = create_transfer,
                                               .is_stream_aware = is_stream_aware};
  (void)name, (void)logger;
  *count = 0;
  const ort_function* api = runtime->api(ORT_VERSION);
  /* Without the table there is nothing to make a status with: the runtime has said why. */
  if (api == NULL) return NULL;
  if (most == 0) return fail(api, "matloom: no place for a factory");
  struct factory* factory = calloc(1, sizeof *factory);
  if (factory == NULL) return fail(api, "matloom: no memory");
  factory->base = functions;
  factory->api = api;
  factory->ep_api = ((const ort_function* (*)(void))api[ORT_EP_API])();
  factories[0] = &factory->base;
  *count = 1;
  return NULL;
}

EXPORTED struct ort_status* ReleaseEpFactory(struct ort_factory* base) {
  free(base);
  return NULL;
}

/* Cycles of all runs of this process, as the engines' counters have them. */
EXPORTED uint64_t matloom_ort_cycles(void) { return atomic_load(&cycles_of_all); }

/* Parts of networks that engines run, of all sessions of this process. */
EXPORTED uint32_t matloom_ort_parts(void) { return (uint32_t)atomic_load(&parts_of_all); }
