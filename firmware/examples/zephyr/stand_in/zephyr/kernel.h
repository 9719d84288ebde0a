/* Replaces Zephyr's header of this name, so that the example compiles, and is tested, without it:
 * the names that the example uses, and nothing else. */
#ifndef MATLOOM_STAND_IN_KERNEL_H
#define MATLOOM_STAND_IN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define ARG_UNUSED(x) (void)(x)

typedef struct {
  int64_t milliseconds;
} k_timeout_t;
#define K_MSEC(number) ((k_timeout_t){number})

struct k_sem {
  unsigned int count;
  unsigned int limit;
};
#define K_SEM_DEFINE(name, first, most) struct k_sem name = {first, most}

int k_sem_take(struct k_sem* sem, k_timeout_t longest);
void k_sem_give(struct k_sem* sem);
uint32_t k_uptime_get_32(void);

#endif
