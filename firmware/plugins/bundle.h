/* Bundles: a program, and which parts of a model its engine's steps are.
 *
 * `matloom plugin` writes them; matloom/tools/bundle.py describes the file. A bundle is opened with a
 * device, and then runs parts. What a part computes is checked against the model that a runtime has
 * loaded by a checksum, which each plug-in computes from its runtime's own structures. */
#ifndef MATLOOM_PLUGIN_BUNDLE_H
#define MATLOOM_PLUGIN_BUNDLE_H

#include "device.h"

/* Runtimes, whose numbers of nodes and tensors a bundle uses. An ONNX model has names instead: a value's
 * number is its name's place in the file, and a node's that of its first output. */
enum plugin_runtime { PLUGIN_LITERT = 1, PLUGIN_ONNXRUNTIME = 2 };

/* Tensors that cross a part's border. Of each: its number in the model, its number in the program, the
 * model's axis for each of the program's (four bits each, from the lowest), and what is added to the
 * bytes of the model. */
struct plugin_pairs {
  const uint8_t* words;
  uint32_t count;
};

/* Nodes of the model that one step of the engine computes. */
struct plugin_part {
  uint32_t step;     /* counted among the engine's */
  uint32_t checksum; /* of the nodes, their tensors and constants */
  const uint8_t* nodes;
  uint32_t node_count;
  struct plugin_pairs inputs;
  struct plugin_pairs outputs;
};

struct plugin_bundle {
  uint8_t* file;
  size_t bytes;
  uint32_t model_nodes;
  uint32_t part_count;
  struct plugin_part* parts;
  uint8_t* opened_file; /* of the program, aligned */
  struct matloom_program program;
  struct matloom_engine engine;
  struct plugin_device device;
  void** tensors; /* of the program; set for a run */
  void** given;   /* of the model, where they differ from the program's; set for a run */
  void** copies;  /* memory of the program's tensors that differ */
  uint64_t cycles;
  char sentence[PLUGIN_SENTENCE]; /* what went wrong last */
};

/* Opens a bundle for a runtime, and its device. False if it cannot: `bundle->sentence` says why,
 * and the bundle must still be closed. */
bool plugin_bundle_open(struct plugin_bundle* bundle, enum plugin_runtime runtime,
                        const char* path, const char* device);

void plugin_bundle_close(struct plugin_bundle* bundle);

/* Number at a place of a part's nodes. */
uint32_t plugin_node(const struct plugin_part* part, uint32_t place);

/* Tensor of the model at a place of pairs. */
uint32_t plugin_tensor(const struct plugin_pairs* pairs, uint32_t place);

/* The name that a number of an ONNX model stands for: its place in the file. */
const char* plugin_text(const struct plugin_bundle* bundle, uint32_t number);

/* Writes the lengths of the axes of the model's tensor at a place of pairs, 16 at most; returns how
 * many there are. */
uint32_t plugin_shape(const struct plugin_bundle* bundle, const struct plugin_pairs* pairs,
                      uint32_t place, int64_t* lengths);

/* Says where a tensor of the model is in memory for the next run; false if it does not have the bytes
 * of the program's tensor. */
bool plugin_give(struct plugin_bundle* bundle, const struct plugin_pairs* pairs, uint32_t place,
                 void* data, size_t bytes);

/* Runs a part once, after plugin_give for all its tensors. A run that fails resets the engine. */
bool plugin_run(struct plugin_bundle* bundle, const struct plugin_part* part);

#endif
