/* Rules for fields of a Program file, owners of lists, texts and the configuration. */
#include "rules.h"

enum field_type {
  U32,
  I32,
  TEXT,
  INDEX,   /* of a record of section `of` */
  ALIGNED, /* without the bits of `low` */
  U64,     /* from here on: of two words */
  F64,
  RANGE,
  PART /* offset and bytes, without the bits of `low`, that end within section `of` */
};

/* A field with limits; see MATLOOM_FIELD_TABLE. */
struct field_rule {
  uint8_t section;
  uint8_t offset;
  uint8_t of; /* section of a range */
  uint8_t type : 4;
  uint8_t error : 4; /* minus LEAST_ERROR */
  uint32_t low;
  uint32_t high;
};

#define LEAST_ERROR MATLOOM_ERROR_FIELD
#define FIELD_RULE(section, offset, type, of, low, high) \
  {MATLOOM_SECTION_##section, offset, MATLOOM_SECTION_##of, type, 0, low, high},
#define PLACE_RULE(section, field, type, of, low, high, result)                            \
  {MATLOOM_SECTION_##section, MATLOOM_FILE_##section##_##field##_OFFSET,                   \
   MATLOOM_SECTION_##of,      type,                                                        \
   MATLOOM_ERROR_##result - LEAST_ERROR, low, high}
#define REGION_RULE(field) \
  PLACE_RULE(NETWORK, field, U32, NONE, 0, MATLOOM_FILE_REGION_LIMIT, REGION)

/* Limits of the format for single fields, and other checks of single fields. */
static const struct field_rule field_rules[] = {
    MATLOOM_FIELD_TABLE(FIELD_RULE)
    REGION_RULE(PROGRAM_BYTES),
    REGION_RULE(INPUT_BYTES),
    REGION_RULE(OUTPUT_BYTES),
    REGION_RULE(ARENA_BYTES),
    PLACE_RULE(CONSTANTS, OFFSET, ALIGNED, NONE, MATLOOM_FILE_CONSTANT_ALIGNMENT - 1u, NONE,
               CONSTANT),
    PLACE_RULE(BINDINGS, TENSOR, INDEX, TENSORS, 0, 0, BINDING),
    PLACE_RULE(BINDINGS, OFFSET, ALIGNED, NONE, MATLOOM_FILE_ALIGNMENT - 1u,
               MATLOOM_FILE_REGION_LIMIT, BINDING),
    PLACE_RULE(ENGINE_STEPS, COMMAND_OFFSET, PART, IMAGE, MATLOOM_END_BYTES - 1u, 0, COMMANDS),
    PLACE_RULE(REPEATS, COMMAND_OFFSET, PART, IMAGE, MATLOOM_END_BYTES - 1u, 0, COMMANDS),
    PLACE_RULE(VARIABLES, BEFORE, INDEX, TENSORS, 0, 0, VARIABLE),
    PLACE_RULE(VARIABLES, AFTER, INDEX, TENSORS, 0, 0, VARIABLE),
    PLACE_RULE(VARIABLES, INITIAL, ALIGNED, NONE, MATLOOM_FILE_CONSTANT_ALIGNMENT - 1u, NONE,
               VARIABLE),
};

/* Whether a range lies within its section; counts the records that it owns. */
static OUTLINE bool range_fits(const struct matloom_program* program, const uint8_t* range,
                               uint32_t section, struct seen* seen) {
  const uint32_t most = count(program, section);
  if (!is_within(range, most)) return false;
  if (section == MATLOOM_SECTION_TEXTS) return true;
  seen->owned[section] += load32(range + 4);
  return seen->owned[section] <= most;
}

static bool fits(const struct matloom_program* program, const struct field_rule* rule,
                 const uint8_t* field, struct seen* seen) {
  const uint32_t low = load32(field);
  const uint32_t high = rule->type >= U64 ? load32(field + 4) : 0;
  switch (rule->type) {
    case U32:
    case I32: /* distances are the same with a sign */
      return low - rule->low <= rule->high - rule->low;
    case TEXT:
      return low < count(program, MATLOOM_SECTION_TEXTS);
    case INDEX:
      return low < count(program, rule->of);
    case ALIGNED:
      return (low & rule->low) == 0 && low <= rule->high;
    case PART:
      return ((low | high) & rule->low) == 0 && is_within(field, count(program, rule->of));
    case U64:
      return high >> 31 == 0;
    case F64:
      /* From 0 to a limit; both are positive, so their bits are in order. Minus zero is one. */
      return high < rule->high || (high == rule->high && low <= rule->low) ||
             (high == 0x80000000u && low == 0);
    default:
      return high <= rule->high && range_fits(program, field, rule->of, seen);
  }
}

enum matloom_result matloom_check_fields(struct matloom_program* program, struct seen* seen) {
  for (size_t i = 0; i < sizeof field_rules / sizeof field_rules[0]; ++i) {
    const struct field_rule* rule = &field_rules[i];
    for (uint32_t number = 0; number < count(program, rule->section); ++number) {
      const uint8_t* record = matloom_record(program, rule->section, number);
      if (!fits(program, rule, record + rule->offset, seen)) {
        program->problem.offset = rule->offset;
        const enum matloom_result error = (enum matloom_result)(LEAST_ERROR + rule->error);
        return matloom_refuse(program, error, rule->section, number);
      }
    }
  }
  return MATLOOM_OK;
}

/* Attributes and fields of the configuration have the same layout. */
RULE(owns_its_values) {
  static const uint8_t pools[] = {
      MATLOOM_SECTION_NONE,   MATLOOM_SECTION_INTEGERS, MATLOOM_SECTION_INTEGERS,
      MATLOOM_SECTION_FLOATS, MATLOOM_SECTION_TEXTS,    MATLOOM_SECTION_INTEGERS,
      MATLOOM_SECTION_TEXTS};
  const uint32_t kind = WORD(record, ATTRIBUTES, KIND);
  const uint8_t* values = FIELD(record, ATTRIBUTES, VALUES);
  UNUSED(number);
  if (kind == MATLOOM_KIND_NONE) return load32(values + 4) == 0;
  return range_fits(program, values, pools[kind], seen);
}

RULE(is_owned) {
  UNUSED(record);
  UNUSED(number);
  return seen->owned[seen->section] == count(program, seen->section);
}

RULE(is_text) {
  const uint32_t size = count(program, MATLOOM_SECTION_STRINGS);
  const uint32_t start = seen->strings;
  const uint32_t bytes = WORD(record, TEXTS, BYTES);
  UNUSED(number);
  seen->strings += bytes + 1u;
  return WORD(record, TEXTS, OFFSET) == start && bytes < size - start &&
         begin_of(program, MATLOOM_SECTION_STRINGS)[start + bytes] == 0;
}

RULE(fills_strings) {
  UNUSED(record);
  UNUSED(number);
  return seen->strings == count(program, MATLOOM_SECTION_STRINGS);
}

RULE(has_fields) {
  UNUSED(record);
  UNUSED(number);
  UNUSED(seen);
  /* Fewer are more than all of 32 bits. */
  return count(program, MATLOOM_SECTION_CONFIGURATION) - MATLOOM_CONFIGURATION_FIELDS <=
         MATLOOM_CONFIGURATION_ADDED;
}

RULE(is_configuration) {
  UNUSED(program);
  UNUSED(seen);
  if (WORD(record, CONFIGURATION, KEY) != number + 1u) return false;
  if (number + 1u == MATLOOM_CONFIGURATION_MAC_MODES) {
    return WORD(record, CONFIGURATION, KIND) == MATLOOM_KIND_INTEGERS;
  }
  return WORD(record, CONFIGURATION, KIND) == MATLOOM_KIND_INTEGER &&
         load32(FIELD(record, CONFIGURATION, VALUES) + 4) == 1u;
}
