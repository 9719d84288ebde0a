/* Words and numbers on the system's serial line, for people. */
#ifndef MATLOOM_SOC_LINE_H
#define MATLOOM_SOC_LINE_H

#include <stdint.h>

void soc_say(const char* text);
/* A space, and a number as eight hexadecimal digits. */
void soc_say_number(uint32_t number);

#endif
