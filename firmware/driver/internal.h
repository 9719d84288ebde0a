/* What the driver's files share: fields of a Program file by name. */
#ifndef MATLOOM_INTERNAL_H
#define MATLOOM_INTERNAL_H

#include "matloom.h"

#define NONE 0xffffffffu

/* Where a copy at each call would cost more code than it saves time. */
#if defined(__GNUC__)
#define OUTLINE __attribute__((noinline))
#define PURE __attribute__((pure))
#else
#define PURE
#define OUTLINE
#endif

/* A range of records: the first, and how many. */
struct range {
  uint32_t first;
  uint32_t count;
};

/* A span of bytes, half open. Tensors and files are so small that no end wraps around. */
struct span {
  uint32_t start;
  uint32_t end;
};

/* A little-endian word at a multiple of four. */
static inline uint32_t load32(const uint8_t* bytes) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  uint32_t value;
  __builtin_memcpy(&value, __builtin_assume_aligned(bytes, 4), sizeof value);
  return value;
#else
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
         (uint32_t)bytes[3] << 24;
#endif
}

/* Records, or bytes, of a section. */
static inline uint32_t count(const struct matloom_program* program, uint32_t section) {
  return program->section[section].count;
}

/* First byte of a section. */
static inline const uint8_t* begin_of(const struct matloom_program* program, uint32_t section) {
  return program->file + program->section[section].offset;
}

/* A field: its section and its offset in words; numbers so small cost an instruction less. */
#define FIELD_AT(section, offset) ((section) << 4 | (offset) >> 2)
#define FIELD(section, field) \
  FIELD_AT(MATLOOM_SECTION_##section, MATLOOM_FILE_##section##_##field##_OFFSET)

/* Address, word and pair of words of a field of a record. */
PURE const uint8_t* matloom_at(const struct matloom_program* program, uint32_t field, uint32_t record);
PURE uint32_t matloom_word(const struct matloom_program* program, uint32_t field, uint32_t record);
PURE struct range matloom_range(const struct matloom_program* program, uint32_t field,
                           uint32_t record);

/* The same by the names of the generated header. */
#define AT(program, section, record, field) matloom_at(program, FIELD(section, field), record)
#define WORD(program, section, record, field) matloom_word(program, FIELD(section, field), record)
#define RANGE(program, section, record, field) matloom_range(program, FIELD(section, field), record)

/* An entry of `integers`. */
PURE int32_t matloom_integer(const struct matloom_program* program, uint32_t number);

/* Where a tensor lies in a region, by number of its binding. */
struct binding {
  uint32_t tensor;
  uint32_t region;
  struct span span; /* bytes in the region */
};

struct binding matloom_binding(const struct matloom_program* program, uint32_t number);

/* Whether two spans share bytes. */
static inline bool overlap(struct span one, struct span other) {
  return one.start < other.end && other.start < one.end;
}

/* Whether a range, or an offset and a size, ends within a limit. */
static inline bool is_within(struct range range, uint32_t limit) {
  return range.count <= limit && range.first <= limit - range.count;
}

static inline uint32_t round_up(uint32_t value, uint32_t step) {
  return (value + step - 1u) / step * step;
}

/* Notes where a rule is broken, and returns the error. */
enum matloom_result matloom_refuse(struct matloom_program* program, enum matloom_result error,
                                   uint32_t section, uint32_t record);

/* Rules of one section each; `program` has its sections. */
enum matloom_result matloom_check_limits(struct matloom_program* program);
enum matloom_result matloom_check_parts(struct matloom_program* program);
enum matloom_result matloom_check_steps(struct matloom_program* program);
enum matloom_result matloom_check_variables(struct matloom_program* program);

/* Bytes of the elements of a shape; 0 where it is impossible or too large. */
PURE uint32_t matloom_shape_bytes(const struct matloom_program* program, uint32_t dtype,
                             struct range shape);
PURE uint32_t matloom_tensor_bytes(const struct matloom_program* program, uint32_t number);

/* Size of a region of external memory. */
PURE uint32_t matloom_region_bytes(const struct matloom_program* program, uint32_t region);

/* Whether two entries of `texts` have the same bytes. */
PURE bool matloom_same_text(const struct matloom_program* program, uint32_t one, uint32_t other);

/* Whether all dimensions and the type of two tensors are the same. */
PURE bool matloom_same_shape(const struct matloom_program* program, struct range one,
                        struct range other);

/* How often a tensor is provided before a step: given, constant, kept, or made. */
PURE uint32_t matloom_provided(const struct matloom_program* program, uint32_t tensor, uint32_t step);

/* Inputs or outputs of a step, engine's or host's. */
PURE struct range matloom_side(const struct matloom_program* program, uint32_t step, bool output);

/* Sets variables on the device to their first values; the host's are then unknown. */
void matloom_begin_placed(struct matloom_engine* engine);

/* Drops what the cache holds of region OUTPUT. */
void matloom_drop_outputs(const struct matloom_engine* engine);

#endif
