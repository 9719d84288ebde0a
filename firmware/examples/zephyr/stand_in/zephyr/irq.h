/* Replaces Zephyr's header of this name. */
#ifndef MATLOOM_STAND_IN_IRQ_H
#define MATLOOM_STAND_IN_IRQ_H

void stand_in_connect(unsigned int irq, unsigned int priority, void (*isr)(const void*));
void irq_enable(unsigned int irq);

#define IRQ_CONNECT(irq, priority, isr, argument, flags) stand_in_connect(irq, priority, isr)

#endif
