/* Replaces Zephyr's header of this name. */
#ifndef MATLOOM_STAND_IN_PRINTK_H
#define MATLOOM_STAND_IN_PRINTK_H

void printk(const char* format, ...);

#endif
