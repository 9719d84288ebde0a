/* Limits of the fields of a Program file, lists that have one owner each, texts, configuration. */
#include "internal.h"

enum field_type { U32, I32, TEXT, U64, F64, RANGE };

/* A field with limits; see MATLOOM_FIELD_TABLE. */
struct field_rule {
  uint8_t section;
  uint8_t offset;
  uint8_t type;
  uint8_t of; /* section of a range */
  uint32_t low;
  uint32_t high;
};

#define FIELD_RULE(section, offset, type, of, low, high) \
  {MATLOOM_SECTION_##section, offset, type, MATLOOM_SECTION_##of, low, high},

static const struct field_rule field_rules[] = {MATLOOM_FIELD_TABLE(FIELD_RULE)};

/* Records that the ranges seen so far own, by section. */
struct owned {
  uint32_t records[MATLOOM_SECTIONS];
};

/* Whether a double lies between 0 and a limit; both are positive, so their bits are in order. */
static bool double_fits(uint32_t low, uint32_t high, const struct field_rule* rule) {
  if (high == 0x80000000u && low == 0) return true; /* minus zero */
  return high < rule->high || (high == rule->high && low <= rule->low);
}

/* Whether a range lies within its section, whose records it owns no more than there are. */
static bool range_fits(const struct matloom_program* program, struct range found, uint32_t section,
                       struct owned* owned) {
  const uint32_t most = count(program, section);
  if (!is_within(found, most)) return false;
  if (section == MATLOOM_SECTION_TEXTS) return true;
  if (found.count > most - owned->records[section]) return false;
  owned->records[section] += found.count;
  return true;
}

static bool fits(const struct matloom_program* program, const struct field_rule* rule,
                 const uint8_t* field, struct owned* owned) {
  const uint32_t low = load32(field);
  const uint32_t high = load32(field + (rule->type >= U64 ? 4 : 0));
  const struct range range = {low, high};
  switch (rule->type) {
    case U32:
      return low >= rule->low && low <= rule->high;
    case I32:
      return (int32_t)low >= (int32_t)rule->low && (int32_t)low <= (int32_t)rule->high;
    case TEXT:
      return low < count(program, MATLOOM_SECTION_TEXTS);
    case U64:
      return high >> 31 == 0;
    case F64:
      return double_fits(low, high, rule);
    default:
      return high <= rule->high && range_fits(program, range, rule->of, owned);
  }
}

static enum matloom_result check_fields(struct matloom_program* program, struct owned* owned) {
  for (size_t i = 0; i < sizeof field_rules / sizeof field_rules[0]; ++i) {
    const struct field_rule* rule = &field_rules[i];
    const uint32_t field = FIELD_AT((uint32_t)rule->section, (uint32_t)rule->offset);
    for (uint32_t record = 0; record < count(program, rule->section); ++record) {
      if (!fits(program, rule, matloom_at(program, field, record), owned)) {
        program->problem.offset = rule->offset;
        return matloom_refuse(program, MATLOOM_ERROR_FIELD, rule->section, record);
      }
    }
  }
  return MATLOOM_OK;
}

/* Checks the values of attributes or of the configuration: records of one layout. */
static enum matloom_result check_values(struct matloom_program* program, uint32_t section,
                                        struct owned* owned) {
  static const uint8_t pools[] = {
      MATLOOM_SECTION_NONE,   MATLOOM_SECTION_INTEGERS, MATLOOM_SECTION_INTEGERS,
      MATLOOM_SECTION_FLOATS, MATLOOM_SECTION_TEXTS,    MATLOOM_SECTION_INTEGERS,
      MATLOOM_SECTION_TEXTS};
  for (uint32_t i = 0; i < count(program, section); ++i) {
    const uint32_t kind =
        matloom_word(program, FIELD_AT(section, MATLOOM_FILE_ATTRIBUTES_KIND_OFFSET), i);
    struct range values =
        matloom_range(program, FIELD_AT(section, MATLOOM_FILE_ATTRIBUTES_VALUES_OFFSET), i);
    if (kind == MATLOOM_KIND_NONE) values.first = 0;
    if (!range_fits(program, values, pools[kind], owned)) {
      return matloom_refuse(program, MATLOOM_ERROR_FIELD, section, i);
    }
  }
  return MATLOOM_OK;
}

/* Checks that every record of a list belongs to one range: nothing is read twice. */
static enum matloom_result check_owned(struct matloom_program* program,
                                       const struct owned* owned) {
  static const uint8_t lists[] = {MATLOOM_SECTION_INTEGERS, MATLOOM_SECTION_FLOATS,
                                  MATLOOM_SECTION_BINDINGS, MATLOOM_SECTION_REPEATS,
                                  MATLOOM_SECTION_SPANS,    MATLOOM_SECTION_ATTRIBUTES};
  for (size_t i = 0; i < sizeof lists; ++i) {
    if (owned->records[lists[i]] != count(program, lists[i])) {
      return matloom_refuse(program, MATLOOM_ERROR_LIST, lists[i], 0);
    }
  }
  return MATLOOM_OK;
}

/* Checks that texts follow each other and fill `strings`, each with a zero byte at its end. */
static enum matloom_result check_texts(struct matloom_program* program) {
  const uint32_t size = count(program, MATLOOM_SECTION_STRINGS);
  uint32_t end = 0;
  for (uint32_t i = 0; i < count(program, MATLOOM_SECTION_TEXTS); ++i) {
    const uint32_t bytes = WORD(program, TEXTS, i, BYTES);
    if (WORD(program, TEXTS, i, OFFSET) != end || bytes >= size - end ||
        begin_of(program, MATLOOM_SECTION_STRINGS)[end + bytes] != 0) {
      return matloom_refuse(program, MATLOOM_ERROR_TEXT, MATLOOM_SECTION_TEXTS, i);
    }
    end += bytes + 1u;
  }
  return end == size ? MATLOOM_OK
                     : matloom_refuse(program, MATLOOM_ERROR_TEXT, MATLOOM_SECTION_STRINGS, 0);
}

/* Checks that the configuration has the fields of this version: the digest says their values. */
static enum matloom_result check_configuration(struct matloom_program* program) {
  const uint32_t fields = count(program, MATLOOM_SECTION_CONFIGURATION);
  if (fields != MATLOOM_CONFIGURATION_FIELDS) {
    return matloom_refuse(program, MATLOOM_ERROR_CONFIGURATION, MATLOOM_SECTION_CONFIGURATION, 0);
  }
  for (uint32_t i = 0; i < fields; ++i) {
    const bool list = i + 1u == MATLOOM_CONFIGURATION_MAC_MODES;
    const uint32_t kind = list ? MATLOOM_KIND_INTEGERS : MATLOOM_KIND_INTEGER;
    if (WORD(program, CONFIGURATION, i, KEY) != i + 1u ||
        WORD(program, CONFIGURATION, i, KIND) != kind ||
        (!list && RANGE(program, CONFIGURATION, i, VALUES).count != 1u)) {
      return matloom_refuse(program, MATLOOM_ERROR_CONFIGURATION, MATLOOM_SECTION_CONFIGURATION,
                            i);
    }
  }
  return MATLOOM_OK;
}

enum matloom_result matloom_check_limits(struct matloom_program* program) {
  struct owned owned = {{0}};
  enum matloom_result result = check_fields(program, &owned);
  if (result == MATLOOM_OK) {
    result = check_values(program, MATLOOM_SECTION_CONFIGURATION, &owned);
  }
  if (result == MATLOOM_OK) result = check_values(program, MATLOOM_SECTION_ATTRIBUTES, &owned);
  if (result == MATLOOM_OK) result = check_owned(program, &owned);
  if (result == MATLOOM_OK) result = check_texts(program);
  if (result == MATLOOM_OK) result = check_configuration(program);
  return result;
}
