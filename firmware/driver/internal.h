/* Shared by the driver's files: records of a Program file, and the meaning of their fields. */
#ifndef MATLOOM_INTERNAL_H
#define MATLOOM_INTERNAL_H

#include "matloom.h"

#define NONE 0xffffffffu

/* For functions whose inlining would cost more code than it saves time. */
#if defined(__GNUC__)
#define OUTLINE __attribute__((noinline))
#define PURE __attribute__((pure))
#else
#define PURE
#define OUTLINE
#endif

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

/* Number of records, or bytes, of a section. */
static inline uint32_t count(const struct matloom_program* program, uint32_t section) {
  return program->section[section].count;
}

/* First byte of a section. */
static inline const uint8_t* begin_of(const struct matloom_program* program, uint32_t section) {
  return program->file + program->section[section].offset;
}

/* A record of a section. Functions take records, not numbers: a field is then one load. */
PURE const uint8_t* matloom_record(const struct matloom_program* program, uint32_t section,
                                   uint32_t number);

/* A record by the names of the generated header; the address of a field in it; the field's word. */
#define AT(program, section, number) matloom_record(program, MATLOOM_SECTION_##section, number)
#define FIELD(record, section, field) ((record) + MATLOOM_FILE_##section##_##field##_OFFSET)
#define WORD(record, section, field) load32(FIELD(record, section, field))

/* Consecutive records of a section. Two words, which are passed in registers. */
struct list {
  const uint8_t* first;
  uint32_t count;
};

/* The records of a range, which is two words of a record: the first, and how many. */
PURE struct list matloom_list(const struct matloom_program* program, const uint8_t* range,
                              uint32_t section);

#define LIST(program, record, from, field, to) \
  matloom_list(program, FIELD(record, from, field), MATLOOM_SECTION_##to)
#define LENGTH(record, section, field) load32(FIELD(record, section, field) + 4)

/* Loops over a list of records of `bytes` bytes: `list.first` is the current one. */
#define EACH_OF(list, bytes) for (; (list).count != 0; (list).first += (bytes), --(list).count)

#define BYTES(section) MATLOOM_FILE_##section##_BYTES

/* Number of records in a list whose first word is `number`. */
PURE uint32_t matloom_times(struct list list, uint32_t bytes, uint32_t number);

/* Tensors that a step reads or writes: bindings of an engine step, numbers of a host step. */
PURE struct list matloom_side(const struct matloom_program* program, uint32_t step, bool output);
PURE uint32_t matloom_side_bytes(const struct matloom_program* program, uint32_t step);

/* Number of the first record of a section whose name equals a text; the number of records if none
 * does. For sections whose records begin with a name: tensors, constants, variables. */
PURE uint32_t matloom_named(const struct matloom_program* program, uint32_t section,
                            uint32_t text);

/* Bytes of the elements of a tensor or constant; 0 if the shape is impossible or too large. */
PURE uint32_t matloom_bytes(const struct matloom_program* program, const uint8_t* record);
PURE uint32_t matloom_tensor_bytes(const struct matloom_program* program, uint32_t number);

/* Whether types and shapes of two tensors or constants are the same. */
PURE bool matloom_alike(const struct matloom_program* program, const uint8_t* one,
                        const uint8_t* other);

/* Size of a region of external memory. */
PURE uint32_t matloom_region_bytes(const struct matloom_program* program, uint32_t region);

/* Where the tensor of a binding ends in its region. Tensors and files are so small that no end
 * wraps around. */
PURE uint32_t matloom_end(const struct matloom_program* program, const uint8_t* binding);

/* Binding of a variable on the device; NULL if the host keeps it. */
PURE const uint8_t* matloom_variable_place(const struct matloom_program* program,
                                           const uint8_t* variable);

/* Whether an offset and a size, two words, end within a limit. */
static inline bool is_within(const uint8_t* range, uint32_t limit) {
  return load32(range + 4) <= limit && load32(range) <= limit - load32(range + 4);
}

static inline uint32_t round_up(uint32_t value) {
  return (value + MATLOOM_FILE_ALIGNMENT - 1u) & ~(MATLOOM_FILE_ALIGNMENT - 1u);
}

/* Stores where a rule is broken, and returns the error. */
enum matloom_result matloom_refuse(struct matloom_program* program, enum matloom_result error,
                                   uint32_t section, uint32_t record);

/* Sets variables on the device to their initial values; those of the host become unknown. */
void matloom_begin_placed(struct matloom_engine* engine);

/* Copies bytes to the engine's memory, unless they are there already, and makes them visible to
 * it. */
void matloom_bring(const struct matloom_engine* engine, uint8_t* place, const uint8_t* from,
                   uint32_t bytes);

/* Copies bytes, unless both addresses are the same. */
OUTLINE void matloom_copy_bytes(uint8_t* to, const uint8_t* from, uint32_t bytes);

/* Drops region OUTPUT from the cache. */
void matloom_drop_outputs(const struct matloom_engine* engine);

#endif
