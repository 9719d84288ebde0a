/* A test is a function; a check that fails says where, and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

#define EQUAL(found, expected)                                                        \
  do {                                                                                \
    const long long found_ = (long long)(found), expected_ = (long long)(expected);   \
    if (found_ != expected_) {                                                        \
      fprintf(stderr, "%s:%d: %s must be %lld, not %lld\n", __FILE__, __LINE__, #found, \
              expected_, found_);                                                     \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

#endif
