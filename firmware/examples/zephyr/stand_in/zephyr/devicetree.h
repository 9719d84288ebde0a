/* Replaces Zephyr's header of this name: one engine and its memory, wherever a test has them. */
#ifndef MATLOOM_STAND_IN_DEVICETREE_H
#define MATLOOM_STAND_IN_DEVICETREE_H

#include <stdint.h>

extern volatile uint32_t stand_in_registers[];
extern void* stand_in_memory;

#define DT_INST_REG_ADDR(instance) (stand_in_registers + (instance))
#define DT_INST_PHANDLE(instance, property) stand_in_##property
#define DT_INST_IRQN(instance) (5 + (instance))
#define DT_INST_IRQ(instance, cell) (1 + (instance))
#define stand_in_memory_region stand_in_memory
#define DT_REG_ADDR(node) ((uintptr_t)(node))
#define DT_REG_SIZE(node) ((void)(node), 65536u)

#endif
