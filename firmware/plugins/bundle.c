/* Bundles read, checked and run; see bundle.h. */
#define _POSIX_C_SOURCE 200809L
#include "bundle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words of the header, by their place; then a record for each part. */
enum {
  WORD_MAGIC_LOW,
  WORD_MAGIC_HIGH,
  WORD_CHECKSUM, /* of all bytes that follow it */
  WORD_VERSION,
  WORD_BYTES,
  WORD_RUNTIME,
  WORD_NODES,
  WORD_PARTS,
  WORD_PROGRAM, /* offset of the Program file, a multiple of 64 */
  WORD_PROGRAM_BYTES,
  HEADER_WORDS
};
enum { PART_STEP, PART_CHECKSUM, PART_NODES, PART_INPUTS, PART_OUTPUTS, PART_WORDS };
/* Words of a tensor that crosses the border. */
enum { PAIR_MODEL, PAIR_PROGRAM, PAIR_AXES, PAIR_OFFSET, PAIR_WORDS };

#define MAGIC_LOW 0x55424c4du  /* "MLBU" */
#define MAGIC_HIGH 0x454c444eu /* "NDLE" */
#define VERSION 2u
#define ALIGNMENT 64u
#define BYTES_LIMIT (1u << 28)
/* Axes that a word names, and the word that keeps them in their places. */
#define NAMED_AXES 8u
#define SAME_AXES 0x76543210u
#define AXES 16u

__attribute__((format(printf, 2, 3))) static bool say(struct plugin_bundle* bundle,
                                                      const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(bundle->sentence, sizeof bundle->sentence, format, arguments);
  va_end(arguments);
  return false;
}

static uint32_t word(const uint8_t* bytes, size_t place) {
  const uint8_t* at = bytes + 4 * place;
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint32_t plugin_node(const struct plugin_part* part, uint32_t place) {
  return word(part->nodes, place);
}

static uint32_t pair_word(const struct plugin_pairs* pairs, uint32_t place, int which) {
  return word(pairs->words, PAIR_WORDS * (size_t)place + (size_t)which);
}

uint32_t plugin_tensor(const struct plugin_pairs* pairs, uint32_t place) {
  return pair_word(pairs, place, PAIR_MODEL);
}

/* The axis of the model that is an axis of the program's tensor. */
static uint32_t model_axis(uint32_t axes, uint32_t at) {
  return at < NAMED_AXES ? axes >> (4 * at) & 15u : at;
}

const char* plugin_text(const struct plugin_bundle* bundle, uint32_t number) {
  return (const char*)bundle->file + number;
}

uint32_t plugin_shape(const struct plugin_bundle* bundle, const struct plugin_pairs* pairs,
                      uint32_t place, int64_t* lengths) {
  const uint32_t number = pair_word(pairs, place, PAIR_PROGRAM);
  const uint32_t axes = pair_word(pairs, place, PAIR_AXES);
  struct matloom_tensor tensor = {.axes = 0};
  (void)matloom_program_tensor(&bundle->program, number, &tensor);
  for (uint32_t i = 0; i < tensor.axes; ++i) {
    lengths[model_axis(axes, i)] = matloom_program_axis(&bundle->program, number, i);
  }
  return tensor.axes;
}

/* ---- Reading ---- */

static bool read_file(struct plugin_bundle* bundle, const char* path) {
  FILE* stream = fopen(path, "rb");
  if (stream == NULL) return say(bundle, "bundle %s cannot be read: %s", path, strerror(errno));
  long size = -1;
  if (fseek(stream, 0, SEEK_END) == 0) size = ftell(stream);
  const bool sized = size >= 4 * HEADER_WORDS && (unsigned long)size <= BYTES_LIMIT;
  if (sized) bundle->file = malloc((size_t)size);
  rewind(stream);
  if (bundle->file != NULL) bundle->bytes = fread(bundle->file, 1, (size_t)size, stream);
  (void)fclose(stream);
  if (!sized) return say(bundle, "%s is not a bundle: its size is %ld bytes", path, size);
  if (bundle->bytes != (size_t)size) return say(bundle, "bundle %s cannot be read", path);
  return true;
}

static bool check_header(struct plugin_bundle* bundle, enum plugin_runtime runtime,
                         const char* path) {
  const uint8_t* file = bundle->file;
  const size_t checked = 4 * (WORD_CHECKSUM + 1);
  const char* made_for = runtime == PLUGIN_LITERT ? "LiteRT" : "onnxruntime";
  if (word(file, WORD_MAGIC_LOW) != MAGIC_LOW || word(file, WORD_MAGIC_HIGH) != MAGIC_HIGH) {
    return say(bundle, "%s is not a bundle: matloom plugin writes one", path);
  }
  if (word(file, WORD_VERSION) != VERSION) {
    return say(bundle, "bundle %s must have version %u, not %" PRIu32 ": write it again", path,
               VERSION, word(file, WORD_VERSION));
  }
  if (word(file, WORD_BYTES) != bundle->bytes ||
      word(file, WORD_CHECKSUM) !=
          matloom_checksum(0, file + checked, bundle->bytes - checked)) {
    return say(bundle, "bundle %s is damaged: write it again", path);
  }
  if (word(file, WORD_RUNTIME) != (uint32_t)runtime) {
    return say(bundle, "bundle %s must be one for %s: write it again", path, made_for);
  }
  return true;
}

/* Words of a list of a record, which must lie before the program; NULL if it does not. */
static const uint8_t* take(struct plugin_bundle* bundle, size_t* place, uint64_t words) {
  const size_t end = word(bundle->file, WORD_PROGRAM) / 4;
  if (*place > end || words > end - *place) return NULL;
  const uint8_t* found = bundle->file + 4 * *place;
  *place += (size_t)words;
  return found;
}

/* Whether a tensor of the model has other bytes than the program's. */
static bool differs(const struct plugin_pairs* pairs, uint32_t place) {
  return pair_word(pairs, place, PAIR_AXES) != SAME_AXES ||
         pair_word(pairs, place, PAIR_OFFSET) != 0;
}

/* The tensors of a list must be the program's, and those that differ have bytes as elements and each
 * axis once. */
static bool check_pairs(const struct plugin_bundle* bundle, const struct plugin_pairs* pairs) {
  for (uint32_t i = 0; i < pairs->count; ++i) {
    const uint32_t number = pair_word(pairs, i, PAIR_PROGRAM);
    const uint32_t axes = pair_word(pairs, i, PAIR_AXES);
    struct matloom_tensor tensor;
    uint32_t named = 0;
    uint64_t elements = 1;
    if (number >= matloom_program_tensors(&bundle->program) ||
        matloom_program_tensor(&bundle->program, number, &tensor) != MATLOOM_OK ||
        tensor.axes > AXES) {
      return false;
    }
    if (!differs(pairs, i)) continue;
    for (uint32_t k = 0; k < tensor.axes; ++k) {
      named |= 1u << model_axis(axes, k);
      elements *= matloom_program_axis(&bundle->program, number, k);
    }
    if (tensor.axes > NAMED_AXES || named != (1u << tensor.axes) - 1 || elements != tensor.bytes) {
      return false;
    }
  }
  return true;
}

static bool read_part(struct plugin_bundle* bundle, struct plugin_part* part, size_t* place) {
  const uint8_t* record = take(bundle, place, PART_WORDS);
  if (record == NULL) return false;
  part->step = word(record, PART_STEP);
  part->checksum = word(record, PART_CHECKSUM);
  part->node_count = word(record, PART_NODES);
  part->inputs.count = word(record, PART_INPUTS);
  part->outputs.count = word(record, PART_OUTPUTS);
  part->nodes = take(bundle, place, part->node_count);
  if (part->nodes == NULL || part->node_count == 0) return false;
  part->inputs.words = take(bundle, place, PAIR_WORDS * (uint64_t)part->inputs.count);
  part->outputs.words = take(bundle, place, PAIR_WORDS * (uint64_t)part->outputs.count);
  return part->inputs.words != NULL && part->outputs.words != NULL &&
         check_pairs(bundle, &part->inputs) && check_pairs(bundle, &part->outputs);
}

/* Whether all numbers of a part are places of texts, which end before the program. */
static bool names_things(const struct plugin_bundle* bundle, const struct plugin_part* part) {
  const uint32_t end = word(bundle->file, WORD_PROGRAM);
  bool inside = bundle->file[end - 1] == '\0';
  for (uint32_t i = 0; i < part->node_count; ++i) inside = inside && plugin_node(part, i) < end;
  for (uint32_t i = 0; i < part->inputs.count; ++i) {
    inside = inside && plugin_tensor(&part->inputs, i) < end;
  }
  for (uint32_t i = 0; i < part->outputs.count; ++i) {
    inside = inside && plugin_tensor(&part->outputs, i) < end;
  }
  return inside;
}

static bool read_parts(struct plugin_bundle* bundle, const char* path) {
  size_t place = HEADER_WORDS;
  const uint32_t count = word(bundle->file, WORD_PARTS);
  if (count <= bundle->bytes / (4 * PART_WORDS)) {
    bundle->parts = calloc((size_t)count + 1, sizeof *bundle->parts);
  }
  if (bundle->parts == NULL) return say(bundle, "bundle %s has too many parts", path);
  for (uint32_t i = 0; i < count; ++i) {
    if (!read_part(bundle, &bundle->parts[i], &place) ||
        (word(bundle->file, WORD_RUNTIME) == PLUGIN_ONNXRUNTIME &&
         !names_things(bundle, &bundle->parts[i]))) {
      return say(bundle, "part %" PRIu32 " of bundle %s breaks a rule: write it again", i, path);
    }
  }
  bundle->model_nodes = word(bundle->file, WORD_NODES);
  bundle->part_count = count;
  return true;
}

/* The program, in memory of its own: it must begin at a multiple of 64 and end with its bytes. */
static bool open_program(struct plugin_bundle* bundle, const char* path) {
  const uint32_t offset = word(bundle->file, WORD_PROGRAM);
  const uint32_t bytes = word(bundle->file, WORD_PROGRAM_BYTES);
  if (offset < 4 * HEADER_WORDS || offset % ALIGNMENT != 0 || offset > bundle->bytes ||
      bytes > bundle->bytes - offset) {
    return say(bundle, "bundle %s has its program outside the file", path);
  }
  bundle->opened_file = aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
  if (bundle->opened_file == NULL) return say(bundle, "no memory for the program of %s", path);
  memcpy(bundle->opened_file, bundle->file + offset, bytes);
  const enum matloom_result result =
      matloom_program_open(&bundle->program, bundle->opened_file, bytes);
  if (result != MATLOOM_OK) {
    return say(bundle, "the program of %s cannot be opened: %s", path,
               matloom_result_text(result));
  }
  if (matloom_program_variables(&bundle->program) != 0) {
    return say(bundle, "the program of %s keeps variables, which no plug-in runs", path);
  }
  const size_t tensors = (size_t)matloom_program_tensors(&bundle->program) + 1;
  bundle->tensors = calloc(tensors, sizeof *bundle->tensors);
  bundle->given = calloc(tensors, sizeof *bundle->given);
  bundle->copies = calloc(tensors, sizeof *bundle->copies);
  return (bundle->tensors != NULL && bundle->given != NULL && bundle->copies != NULL) ||
         say(bundle, "no memory for the tensors of %s", path);
}

static bool open_engine(struct plugin_bundle* bundle, const char* device) {
  const uint32_t bytes = matloom_program_memory(&bundle->program, false);
  if (!plugin_device_open(&bundle->device, device, bytes, bundle->sentence)) return false;
  enum matloom_result result = matloom_probe(&bundle->engine, &bundle->device.port);
  if (result == MATLOOM_OK) {
    result = matloom_attach(&bundle->engine, &bundle->program, &bundle->device.memory);
  }
  return result == MATLOOM_OK || say(bundle, "the program cannot be put on device %s: %s", device,
                                     matloom_result_text(result));
}

bool plugin_bundle_open(struct plugin_bundle* bundle, enum plugin_runtime runtime,
                        const char* path, const char* device) {
  memset(bundle, 0, sizeof *bundle);
  return read_file(bundle, path) && check_header(bundle, runtime, path) &&
         open_program(bundle, path) && read_parts(bundle, path) && open_engine(bundle, device);
}

void plugin_bundle_close(struct plugin_bundle* bundle) {
  plugin_device_close(&bundle->device);
  for (uint32_t i = 0; bundle->copies != NULL && i < matloom_program_tensors(&bundle->program); ++i) {
    free(bundle->copies[i]);
  }
  free(bundle->copies);
  free(bundle->given);
  free(bundle->tensors);
  free(bundle->opened_file);
  free(bundle->parts);
  free(bundle->file);
  memset(bundle, 0, sizeof *bundle);
}

/* ---- Running ---- */

bool plugin_give(struct plugin_bundle* bundle, const struct plugin_pairs* pairs, uint32_t place,
                 void* data, size_t bytes) {
  const uint32_t number = pair_word(pairs, place, PAIR_PROGRAM);
  struct matloom_tensor tensor;
  if (data == NULL || matloom_program_tensor(&bundle->program, number, &tensor) != MATLOOM_OK) {
    return say(bundle, "tensor %" PRIu32 " has no memory", plugin_tensor(pairs, place));
  }
  if (tensor.bytes != bytes) {
    return say(bundle, "tensor %" PRIu32 " must have %" PRIu32 " bytes, not %zu",
               plugin_tensor(pairs, place), tensor.bytes, bytes);
  }
  bundle->tensors[number] = data;
  if (!differs(pairs, place)) return true;
  if (bundle->copies[number] == NULL) bundle->copies[number] = malloc(bytes + 1);
  if (bundle->copies[number] == NULL) return say(bundle, "no memory for a tensor");
  bundle->given[number] = data;
  bundle->tensors[number] = bundle->copies[number];
  return true;
}

/* Copies between a tensor of the model and the program's, which has its axes in another order. */
static void convert(const struct plugin_bundle* bundle, const struct plugin_pairs* pairs,
                    uint32_t place, uint8_t* model, uint8_t* program, bool to_model) {
  const uint32_t number = pair_word(pairs, place, PAIR_PROGRAM);
  const uint32_t named = pair_word(pairs, place, PAIR_AXES);
  const uint8_t offset = (uint8_t)pair_word(pairs, place, PAIR_OFFSET);
  int64_t lengths[AXES];
  size_t steps[AXES], counts[AXES] = {0}, step = 1, at = 0, bytes = 1;
  const uint32_t axes = plugin_shape(bundle, pairs, place, lengths);
  for (uint32_t i = axes; i-- > 0;) { /* of the model's axes */
    steps[i] = step;
    step *= (size_t)lengths[i];
  }
  for (uint32_t i = 0; i < axes; ++i) bytes *= matloom_program_axis(&bundle->program, number, i);
  for (size_t done = 0; done < bytes; ++done) {
    if (to_model) {
      model[at] = (uint8_t)(program[done] - offset);
    } else {
      program[done] = (uint8_t)(model[at] + offset);
    }
    for (uint32_t i = axes; i-- > 0;) {
      const uint32_t axis = model_axis(named, i);
      at += steps[axis];
      if (++counts[i] < (size_t)lengths[axis]) break;
      at -= steps[axis] * counts[i];
      counts[i] = 0;
    }
  }
}

/* Copies all tensors of a list that differ. */
static void convert_all(const struct plugin_bundle* bundle, const struct plugin_pairs* pairs,
                        bool to_model) {
  for (uint32_t i = 0; i < pairs->count; ++i) {
    const uint32_t number = pair_word(pairs, i, PAIR_PROGRAM);
    if (!differs(pairs, i) || bundle->given[number] == NULL) continue;
    convert(bundle, pairs, i, bundle->given[number], bundle->copies[number], to_model);
  }
}

/* Why a run failed; a fault is read before the reset that ends it. */
static bool failed(struct plugin_bundle* bundle, enum matloom_result result) {
  struct matloom_fault_record record;
  const char* cause = "";
  if (result == MATLOOM_ERROR_FAULT && matloom_fault(&bundle->engine, &record) == MATLOOM_OK) {
    cause = matloom_fault_text(record.cause);
  }
  (void)matloom_reset(&bundle->engine);
  return say(bundle, "the engine's run failed: %s%s%s", matloom_result_text(result),
             *cause == '\0' ? "" : ": ", cause);
}

bool plugin_run(struct plugin_bundle* bundle, const struct plugin_part* part) {
  struct matloom_engine* engine = &bundle->engine;
  struct matloom_counters counters;
  convert_all(bundle, &part->inputs, false);
  enum matloom_result result = matloom_write_inputs(engine, part->step, bundle->tensors);
  if (result == MATLOOM_OK) result = matloom_start(engine, part->step);
  if (result == MATLOOM_OK) result = matloom_wait(engine);
  if (result == MATLOOM_OK) result = matloom_read_outputs(engine, part->step, bundle->tensors);
  if (result == MATLOOM_OK) result = matloom_counters(engine, &counters);
  if (result == MATLOOM_OK) convert_all(bundle, &part->outputs, true);
  /* Tensors are given for one run only. */
  const size_t tensors = matloom_program_tensors(&bundle->program);
  memset(bundle->tensors, 0, tensors * sizeof *bundle->tensors);
  memset(bundle->given, 0, tensors * sizeof *bundle->given);
  if (result != MATLOOM_OK) return failed(bundle, result);
  bundle->cycles += counters.value[MATLOOM_COUNTER_CYCLES];
  return true;
}
