/* Handles a trap for which an image has no handler: prints a line, and halts the processor. Cause,
 * address and value are mcause, mepc and mtval of the RISC-V privileged architecture. */
#include <stdbool.h>

#include "line.h"

_Noreturn void soc_trap(uint32_t cause, uint32_t address, uint32_t value);

_Noreturn void soc_trap(uint32_t cause, uint32_t address, uint32_t value) {
  soc_say("\ntrap");
  soc_say_number(cause);
  soc_say_number(address);
  soc_say_number(value);
  soc_say("\n");
  while (true) {
  }
}
