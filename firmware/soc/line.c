#include "line.h"

#include "soc.h"

void soc_say(const char* text) {
  size_t count = 0;
  while (text[count] != 0) ++count;
  soc_send(NULL, (const uint8_t*)text, count);
}

void soc_say_number(uint32_t number) {
  char text[] = " 00000000";
  for (uint32_t digit = 8; digit > 0; --digit, number >>= 4u) {
    text[digit] = "0123456789abcdef"[number & 15u];
  }
  soc_say(text);
}
