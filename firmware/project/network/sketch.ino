// Runs the network @NETWORK@ once a second, and prints its first output.
#include <@NETWORK@.h>

// Where the engine's registers lie, and memory that processor and engine both reach, as each sees it:
// change these to your system's. An engine behind another bus is reached by port.read32 and
// port.write32 (matloom.h).
#ifndef ENGINE_REGISTERS
#define ENGINE_REGISTERS 0xf0000000u
#define SHARED_MEMORY 0x90000000u
#define SHARED_BUS 0x90000000u
#endif

static matloom_engine engine;
static bool ready = false;

// Prints what went wrong, if anything did.
static bool succeeded(const char *what, matloom_result result) {
  if (result == MATLOOM_OK) return true;
  Serial.print(what);
  Serial.print(": ");
  Serial.println(matloom_result_text(result));
  return false;
}

void setup() {
  Serial.begin(115200);
  matloom_port port = {};
  port.registers = reinterpret_cast<volatile uint32_t *>(static_cast<uintptr_t>(ENGINE_REGISTERS));
  port.timeout = 1000000;
  matloom_memory memory = {};
  memory.address = reinterpret_cast<void *>(static_cast<uintptr_t>(SHARED_MEMORY));
  memory.bus = SHARED_BUS;
  memory.bytes = @MACRO@_MEMORY_BYTES;
  ready = succeeded("probe", matloom_probe(&engine, &port)) &&
          succeeded("open", @NETWORK@_open(&engine, &memory));
}

void loop() {
  if (ready) {
    // Fill @INPUT@ here: @INPUT_MACRO@_ELEMENTS numbers, as @NETWORK@.h describes them.
    if (succeeded("run", @NETWORK@_run(&engine))) {
      for (uint32_t i = 0; i < @OUTPUT_MACRO@_ELEMENTS; ++i) Serial.println(@OUTPUT@[i]);
    }
  }
  delay(1000);
}
