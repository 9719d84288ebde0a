/* The table of rules within sections, and the loop that checks a file against them. */
#include "rules.h"

struct rule {
  bool (*holds)(const struct matloom_program*, const uint8_t*, uint32_t, struct seen*);
  uint8_t section;
  uint8_t error;
  bool once; /* for the section as a whole, not for each record */
};

#define EACH(section, result, name) \
  {matloom_##name, MATLOOM_SECTION_##section, MATLOOM_ERROR_##result, false}
#define ONCE(section, result, name) \
  {matloom_##name, MATLOOM_SECTION_##section, MATLOOM_ERROR_##result, true}

/* In order: rules rely on earlier ones, and on the limits of fields. */
static const struct rule rules[] = {
    EACH(CONFIGURATION, FIELD, owns_its_values),
    EACH(ATTRIBUTES, FIELD, owns_its_values),
    ONCE(INTEGERS, LIST, is_owned),
    ONCE(FLOATS, LIST, is_owned),
    ONCE(BINDINGS, LIST, is_owned),
    ONCE(REPEATS, LIST, is_owned),
    ONCE(SPANS, LIST, is_owned),
    ONCE(ATTRIBUTES, LIST, is_owned),
    EACH(TEXTS, TEXT, is_text),
    ONCE(STRINGS, TEXT, fills_strings),
    ONCE(CONFIGURATION, CONFIGURATION, has_fields),
    EACH(CONFIGURATION, CONFIGURATION, is_configuration),
    EACH(TENSORS, TENSOR, is_tensor),
    EACH(TENSORS, TEXT, is_named_once),
    EACH(CONSTANTS, CONSTANT, is_constant),
    EACH(CONSTANTS, TEXT, is_named_once),
    EACH(BINDINGS, BINDING, ends_in_region),
    ONCE(NETWORK, REGION, has_regions),
    EACH(STEPS, ORDER, is_step),
    ONCE(STEPS, ORDER, has_steps),
    ONCE(NETWORK, ORDER, is_network),
    EACH(STEPS, ORDER, finds_inputs),
    EACH(REPEATS, COMMANDS, keeps_spans),
    EACH(ENGINE_STEPS, BINDING, has_bindings),
    EACH(VARIABLES, VARIABLE, is_named_once),
    EACH(VARIABLES, VARIABLE, is_variable),
    EACH(VARIABLES, VARIABLE, is_placed),
    EACH(ENGINE_STEPS, VARIABLE, finds_variables),
};

/* Checks the rules within the sections of a program whose directory was checked. */
static enum matloom_result check(struct matloom_program* program) {
  struct seen seen = {0};
  const enum matloom_result result = matloom_check_fields(program, &seen);
  if (result != MATLOOM_OK) return result;
  for (const struct rule* rule = rules; rule != rules + sizeof rules / sizeof rules[0]; ++rule) {
    const uint32_t records = rule->once ? 1u : count(program, rule->section);
    seen.section = rule->section;
    for (uint32_t i = 0; i < records; ++i) {
      const uint8_t* record = matloom_record(program, rule->section, i);
      if (!rule->holds(program, record, i, &seen)) {
        return matloom_refuse(program, (enum matloom_result)rule->error, rule->section, i);
      }
    }
  }
  return MATLOOM_OK;
}

enum matloom_result matloom_program_open(struct matloom_program* program, const void* file,
                                         size_t bytes) {
  const enum matloom_result result = matloom_program_use(program, file, bytes);
  return result == MATLOOM_OK ? check(program) : result;
}
