/* Rules of Program files, each a function of one record, which `rules.c` calls from a table. */
#ifndef MATLOOM_RULES_H
#define MATLOOM_RULES_H

#include "internal.h"

/* Facts about earlier records that rules need. */
struct seen {
  uint32_t section;                 /* of the rule */
  uint32_t owned[MATLOOM_SECTIONS]; /* records that ranges own, by section */
  uint32_t strings;                 /* bytes of texts */
  uint32_t tensors;                 /* bytes of tensors */
  uint32_t ends[4];                 /* of the last tensors in regions */
  uint32_t steps[2];                /* by kind */
};

#define RULE(name)                                                                  \
  bool matloom_##name(const struct matloom_program* program, const uint8_t* record, \
                      uint32_t number, struct seen* seen)

/* Marks an argument that a rule does not use. */
#define UNUSED(name) (void)(name)

/* limits.c, which has a separate table of the limits of fields. */
RULE(owns_its_values);   /* an attribute, or a field of the configuration */
RULE(is_owned);          /* a list's records belong to one range each: nothing is read twice */
RULE(is_text);           /* texts follow each other, with a zero byte at each end */
RULE(fills_strings);     /* and fill their section */
RULE(has_fields);        /* the configuration: those of this version; digests say values */
RULE(is_configuration);  /* one of them */
enum matloom_result matloom_check_fields(struct matloom_program* program, struct seen* seen);

/* parts.c */
RULE(is_named_once);     /* no record before has the same name */
RULE(is_tensor);         /* shape, bytes, scale */
RULE(is_constant);       /* shape, scales, place; as the tensor of its name, if there is one */
RULE(ends_in_region);    /* notes where a binding's tensor ends */
RULE(has_regions);       /* sizes of regions; INPUT and OUTPUT end with their last tensors */

/* steps.c */
RULE(is_step);           /* steps of each kind follow each other, and name what there is */
RULE(has_steps);         /* all of each kind */
RULE(is_network);        /* inputs are given once, outputs are there in the end */
RULE(finds_inputs);      /* a step finds what it reads, and makes what nothing else provides */
RULE(keeps_spans);       /* what a repetition relies on, ascending and apart in the scratchpad */
RULE(has_bindings);      /* of an engine's step, in their region, or in ARENA: for variables */

/* variables.c */
RULE(is_variable);       /* tensors alike, the first given by nothing else; first value; made */
RULE(is_placed);         /* in ARENA, apart from those before it */
RULE(finds_variables);   /* an engine's step finds them where they are, before they are replaced */

/* How often a tensor is provided before a step: as input, constant or variable, or by a step. */
PURE uint32_t matloom_provided(const struct matloom_program* program, uint32_t tensor,
                               uint32_t step);

/* Whether bytes lie in the host's data. */
PURE bool matloom_is_host_data(const struct matloom_program* program, uint32_t offset,
                               uint32_t bytes);

/* Whether two bindings share bytes of a region. */
PURE bool matloom_overlap(const struct matloom_program* program, const uint8_t* one,
                          const uint8_t* other);

#endif
