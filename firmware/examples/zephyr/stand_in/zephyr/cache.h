/* Replaces Zephyr's header of this name. */
#ifndef MATLOOM_STAND_IN_CACHE_H
#define MATLOOM_STAND_IN_CACHE_H

#include <stddef.h>

int sys_cache_data_flush_range(void* address, size_t bytes);
int sys_cache_data_invd_range(void* address, size_t bytes);

#endif
