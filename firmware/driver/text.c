/* Results and causes of faults in words. */
#include "internal.h"

const char* matloom_result_text(enum matloom_result result) {
  static const char* const texts[] = {
      "done",
      "the engine is at work",
      "an argument is out of its range",
      "not a Program file",
      "another format version: compile the network again",
      "a file that is cut short, or too long",
      "a file with a wrong checksum",
      "another interface version: compile the network again",
      "a directory out of order",
      "a section that is absent or unknown",
      "a field outside its limits",
      "a list without one owner",
      "texts out of order, or a name given twice",
      "a configuration of another version",
      "an impossible tensor",
      "a constant outside the host's data",
      "regions that do not fit their tensors",
      "a tensor bound where it must not be",
      "commands outside the image",
      "a step that reads what nothing makes",
      "an impossible variable",
      "a register access failed",
      "no engine of this interface version",
      "another configuration than the engine's",
      "memory too small, misaligned or out of reach",
      "not attached, or to be reset first",
      "the engine stopped with a fault",
      "no end in time",
      "a step of the host failed",
  };
  const size_t number = (size_t)result;
  return number < sizeof texts / sizeof texts[0] ? texts[number] : "unknown result";
}

const char* matloom_fault_text(uint32_t cause) {
  static const char* const texts[] = {
      "no fault",
      "illegal opcode",
      "illegal field",
      "outside the scratchpad",
      "outside the accumulators",
      "outside a region of external memory",
      "a store to a region that is read only",
      "an impossible dependency",
      "a command buffer out of range",
      "a bus error on reading",
      "a bus error on writing",
      "no progress in time",
  };
  return cause < sizeof texts / sizeof texts[0] ? texts[cause] : "unknown fault";
}
