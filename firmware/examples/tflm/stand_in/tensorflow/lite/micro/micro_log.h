/* Replaces TensorFlow Lite Micro's header of this name in tests; see kernels/kernel_util.h. */
#ifndef MATLOOM_STAND_IN_MICRO_LOG_H
#define MATLOOM_STAND_IN_MICRO_LOG_H

/* Prints a line for people. */
void MicroPrintf(const char* format, ...);

#endif
