/* A system without caches, with a UART like the 16550: adapt it to yours. */
#include "board.h"

#define ENGINE 0xf0000000u
#define SHARED 0x90000000u /* 1 MiB that processor and engine share */
#define UART ((volatile uint8_t*)0x10000000u)
#define UART_STATUS 5
#define UART_HAS_BYTE 0x01u
#define UART_HAS_ROOM 0x20u

struct matloom_port board_port(void) {
  const struct matloom_port port = {.registers = (volatile uint32_t*)ENGINE, .timeout = 1000000};
  return port;
}

struct matloom_memory board_memory(void) {
  const struct matloom_memory memory = {(void*)SHARED, SHARED, 1u << 20};
  return memory;
}

bool board_input(int8_t* image) {
  for (int i = 0; i < 64; ++i) {
    while ((UART[UART_STATUS] & UART_HAS_BYTE) == 0) continue;
    image[i] = (int8_t)UART[0];
  }
  return true;
}

void board_say(int number) {
  while ((UART[UART_STATUS] & UART_HAS_ROOM) == 0) continue;
  UART[0] = (uint8_t)('0' + number);
}
