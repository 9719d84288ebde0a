/* What becomes of a trap that an image has no handler for: a line says it, and the processor stands
 * still. Cause, address and value are those of the RISC-V privileged architecture (mcause, mepc, mtval). */
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
